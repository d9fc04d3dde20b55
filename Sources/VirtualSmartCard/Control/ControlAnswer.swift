internal import FoundationEssentials

/// The answer to a line on the control socket: one JSON object on one line.
struct ControlAnswer: Encodable {
    /// What `status` tells of the card.
    struct Status: Encodable {
        let commands: Int
        let firmware: String
        let inserted: Bool
        let instructions: [String: Int]
        let powerCycles: Int
        let serial: UInt32
        let touch: String
        let waitingForTouch: Bool

        init(_ card: VirtualCard) {
            let statistics = card.statistics
            commands = statistics.commands
            firmware = card.profile.firmware.description
            inserted = card.isInserted
            instructions = statistics.instructions
            powerCycles = statistics.powerCycles
            serial = card.profile.serialNumber
            touch = card.touch.rawValue
            waitingForTouch = card.isWaitingForTouch
        }
    }

    let done: Bool
    var error: String?
    var status: Status?

    /// Does what a line asks for.
    init(to line: String, card: VirtualCard) {
        guard let request = ControlRequest(line) else {
            done = false
            error = "one of: \(ControlRequest.usage)"
            return
        }
        switch request {
        case .touch(let mode):
            card.touch = mode
            done = true
        case .press:
            done = card.press()
            error = done ? nil : "no key waits to be touched"
        case .eject:
            card.eject()
            done = true
        case .insert:
            card.insert()
            done = true
        case .fail(let slot, let status):
            card.failNextUse(of: slot, with: status)
            done = true
        case .status:
            status = Status(card)
            done = true
        }
    }

    /// The JSON with the end of the line.
    var line: [UInt8] {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
        }
    }
}
