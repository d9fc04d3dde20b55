import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// A program that asks and asks.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"), .requires(program: "gdbus"),
    .requires(program: "setpriv"), .enabled(if: geteuid() == 0, "needs root, to become another user"), .softwareTPM,
    .virtualFinger)
struct FloodTests {
    @Test func `calls of any kind have limits, each user's their own`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let bus = try await Bus.system(at: scene.reader.busAddress)
            let errors = await withTaskGroup { group in
                for _ in 0..<100 {
                    group.addTask {
                        do throws(BusError) {
                            _ = try await bus.call(PresenceWire.target(.terms), [.string("pin"), .uint32(0)])
                            return ""
                        } catch {
                            return error.name
                        }
                    }
                }
                return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 } as [String: Int]
            }
            #expect(Set(errors.keys).isSubset(of: ["", Self.limits, Self.transient]))
            #expect(errors["", default: 0] >= 4)
            #expect(errors["", default: 0] <= 120)
            #expect(errors[Self.limits, default: 0] > 0, "many at once from one client: \(errors)")
            for _ in 0..<120 { _ = await error(of: bus, .state) }
            #expect(await error(of: bus, .state) == Self.transient, "120 calls in a minute are enough")
            for method in [PresenceWire.Method.terms, .makePIN, .resetPIN, .subscribe] {
                #expect(await error(of: bus, method) == Self.transient)
            }
            #expect(await error(of: bus, .cancel).isEmpty)
            let other = try await Stranger(on: scene.reader.busAddress).call("State")
            #expect(other.text.contains("not-enrolled"), "\(other.text)")
        }
    }

    private static let limits = "org.freedesktop.DBus.Error.LimitsExceeded"
    private static let transient = "org.latchkey.Presence1.Error.Transient"

    /// The name of the error that a call ends with; empty when it succeeds.
    private func error(of bus: Bus, _ method: PresenceWire.Method) async -> String {
        do throws(BusError) {
            _ = try await bus.call(PresenceWire.target(method))
            return ""
        } catch {
            return error.name
        }
    }
}
