import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The policy file of this package, together with that of the distribution.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "gdbus"), .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, to become other users"),
    .enabled(
        if: FileManager.default.fileExists(atPath: SystemBus.distribution),
        "needs \(SystemBus.distribution)"),
    .softwareTPM)
struct BusPolicyTests {
    /// Debian's `daemon`, instead of `latchkey-presenced`.
    private static let service: UInt32 = 1

    @Test
    func
        `only the service's user can own its name, all users can call it, and only root can reset a PIN`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        try await SystemBus.withRunning(as: Self.service) { bus in
            let (nobody, root) = (Stranger(on: bus), Stranger(on: bus, as: 0))
            for impostor in [nobody, root] {
                let answer = try await impostor.askBus("RequestName", PresenceWire.name, "0")
                #expect(
                    answer.text.contains("org.freedesktop.DBus.Error.AccessDenied"),
                    "\(answer.text)")
            }
            BrokerScene.openToEverybody(tpm)
            let broker = try await PresenceBrokerProcess(
                BrokerScene.program, tcti: tpm.tcti, busAddress: bus, as: Self.service)
            for caller in [nobody, root] {
                let state = try await caller.call("State")
                #expect(state.text.contains("not-available"), "\(state.text)")
                let terms = try await caller.call("Terms", "pin", "0")
                #expect(terms.text.contains("'User': <uint32 \(caller.user)>"), "\(terms.text)")
            }
            let refused = try await nobody.call("ResetPIN", "0")
            #expect(
                refused.text.contains("org.freedesktop.DBus.Error.AccessDenied"), "\(refused.text)")
            for (method, arguments) in [("Users", []), ("Forget", ["0"])] {
                let refused = try await nobody.call(method, arguments)
                #expect(
                    refused.text.contains("org.freedesktop.DBus.Error.AccessDenied"),
                    "\(refused.text)")
            }
            #expect(try await root.call("Users").status == 0)
            let none = try await root.call("Forget", "0")
            #expect(none.text.contains("org.latchkey.Presence1.Error.NotFound"), "\(none.text)")
            let reset = try await root.call("ResetPIN", "0")
            #expect(reset.text.contains("org.latchkey.Presence1.Error.NotFound"), "\(reset.text)")
            await broker.stop(SIGKILL)
        }
    }
}
