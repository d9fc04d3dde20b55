import Latchkey
import Testing

@testable import LatchkeyPresence

/// Errors of the presence broker on the bus.
struct PresenceWireTests {
    @Test(arguments: [
        Recovery("Try again."), Recovery("Close that program.", .restartReader),
        Recovery("Wait.", .diagnose, .restartReader),
    ])
    func `an error keeps its recovery and the actions of the programs`(recovery: Recovery) {
        let sent = KeystoreError(code: .unavailable, reason: "no reader", recovery: recovery)
        let received = PresenceWire.keystoreError(PresenceWire.error(sent))
        #expect(received.code == .unavailable && received.reason == "no reader")
        #expect(received.recoveryAction == recovery)
    }

    @Test func `unknown actions are ignored`() {
        var error = PresenceWire.error(
            KeystoreError(code: .unavailable, reason: "no reader", recovery: "Try again."))
        error = BusError(name: error.name, message: error.message + "\nrestartReader unknown")
        #expect(
            PresenceWire.keystoreError(error).recoveryAction
                == Recovery("Try again.", .restartReader))
    }
}
