import Latchkey
import LatchkeyServices
import Testing

struct RecoveryTests {
    @Test(arguments: Recovery.Action.allCases)
    func `each action names a command or an option in a sentence`(_ action: Recovery.Action) {
        #expect(action.command.contains(/‘(sudo )?(latchkey|systemctl) |--[a-z]/))
        #expect(action.command.hasSuffix("."))
        #expect(Recovery("Wait.", action).withCommands == "Wait. \(action.command)")
    }

    @Test func `an error states the steps of both its parts, and then their commands`() {
        let error = KeystoreError(
            code: .failed, reason: "it failed",
            recovery: Recovery("Wait.", .diagnose).then(Recovery("Reset it.", .resetStore)))
        #expect(
            error.recovery
                == "Wait. Reset it. To archive the records of all containers and empty the store, "
                + "call RecordStore.startOver().",
            "an app has the call")
        #expect(
            error.advice
                == "Wait. Reset it. ‘latchkey doctor’ shows the state of the hardware. "
                + Recovery.Action.resetStore.command,
            "a program has the command in place of the call")
        #expect(
            error.with(recovery: error.recoveryAction.offering(.login)).recovery == error.recovery)
    }
}
