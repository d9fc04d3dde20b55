import Testing

@testable import LatchkeyPKCS11

struct RecoveryPolicyTests {
    @Test(arguments: [
        (ReturnValue.sessionHandleInvalid, [RecoveryPolicy.Step.reopenSession]),
        (.objectHandleInvalid, [.reopenSession]),
        (.keyHandleInvalid, [.reopenSession]),
        (.operationActive, [.reopenSession]),
        (.deviceError, [.findTokenAgain, .reinitializeModule]), (.generalError, [.findTokenAgain]),
        (.deviceRemoved, [.findTokenAgain]),
        (.tokenNotPresent, [.findTokenAgain]),
        (.tokenNotRecognized, [.findTokenAgain]),
        (.slotIDInvalid, [.findTokenAgain]),
        (.cryptokiNotInitialized, [.reinitializeModule]),
        (.pinIncorrect, []), (.pinLocked, []), (.userNotLoggedIn, []), (.functionFailed, []),
    ])
    func `each error has its recovery steps, and each is tried once`(
        _ value: ReturnValue, _ steps: [RecoveryPolicy.Step]
    ) {
        var recovery = RecoveryPolicy()
        let error = CryptokiError(value, from: "C_Sign")
        #expect(steps.map { _ in recovery.next(after: error) } == steps)
        #expect(recovery.next(after: error) == nil)
    }

    @Test func `successive errors do not repeat a step`() {
        var recovery = RecoveryPolicy()
        #expect(
            recovery.next(after: CryptokiError(.deviceRemoved, from: "C_Sign")) == .findTokenAgain)
        #expect(
            recovery.next(after: CryptokiError(.sessionHandleInvalid, from: "C_Sign"))
                == .reopenSession)
        #expect(
            recovery.next(after: CryptokiError(.deviceError, from: "C_Sign")) == .reinitializeModule
        )
        #expect(recovery.next(after: CryptokiError(.tokenNotPresent, from: "C_Sign")) == nil)
    }

    @Test func `a module that shows no token is restarted if its state may be stale`() {
        let absent = CryptokiError(.tokenAbsent, reason: "")
        var recovery = RecoveryPolicy()
        #expect(recovery.next(after: absent) == .findTokenAgain)
        #expect(recovery.next(after: absent) == nil)
        #expect(recovery.next(after: absent, showsNoToken: true) == .reinitializeModule)
        #expect(recovery.next(after: absent, showsNoToken: true) == nil)
    }

    @Test(arguments: [
        CryptokiError.Kind.timedOut, .unresponsive, .cancelled, .loginNeeded, .unsound, .malformed,
    ])
    func `other errors are not repeated`(_ kind: CryptokiError.Kind) {
        var recovery = RecoveryPolicy()
        #expect(recovery.next(after: CryptokiError(kind, reason: "")) == nil)
    }
}
