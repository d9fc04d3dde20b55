import ArgumentParser
import LatchkeyPKCS11

/// A slot of a PIV card as an argument: `9a`, `9c`, `9d`, `9e` or `82` to `95`.
struct PIVSlotArgument: ExpressibleByArgument {
    let slot: PIVSlot

    init?(argument: String) {
        guard let slot = PIVSlot(argument.lowercased()) else { return nil }
        self.slot = slot
    }
}
