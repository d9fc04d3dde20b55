import Testing

@testable import LatchkeyPKCS11

struct RecoveryPolicyTests {
    @Test(arguments: [
        (ReturnValue.sessionHandleInvalid, [RecoveryPolicy.Step.reopenSession]),
        (.objectHandleInvalid, [.reopenSession]),
        (.keyHandleInvalid, [.reopenSession]),
        (.operationActive, [.reopenSession]),
        (.deviceError, [.findTokenAgain, .restartModule]), (.generalError, [.findTokenAgain]),
        (.deviceRemoved, [.findTokenAgain]),
        (.tokenNotPresent, [.findTokenAgain]),
        (.tokenNotRecognized, [.findTokenAgain]),
        (.slotIDInvalid, [.findTokenAgain]),
        (.cryptokiNotInitialized, [.restartModule]),
        (.pinIncorrect, []), (.pinLocked, []), (.userNotLoggedIn, []), (.functionFailed, []),
    ])
    func `each error has its recovery steps, and each is tried once`(
        _ value: ReturnValue, _ steps: [RecoveryPolicy.Step]
    ) {
        let recovery = RecoveryPolicy()
        let error = CryptokiError(value, from: "C_Sign")
        #expect(steps.map { _ in recovery.next(after: error) } == steps)
        #expect(recovery.next(after: error) == nil)
    }

    @Test func `successive errors do not repeat a step`() {
        let recovery = RecoveryPolicy()
        #expect(
            recovery.next(after: CryptokiError(.deviceRemoved, from: "C_Sign")) == .findTokenAgain)
        #expect(
            recovery.next(after: CryptokiError(.sessionHandleInvalid, from: "C_Sign"))
                == .reopenSession)
        #expect(
            recovery.next(after: CryptokiError(.deviceError, from: "C_Sign")) == .restartModule
        )
        #expect(recovery.next(after: CryptokiError(.tokenNotPresent, from: "C_Sign")) == nil)
    }

    @Test func `an accepted login that ended is repeated once`() {
        let errors = [
            CryptokiError(.loginNeeded, reason: ""),
            CryptokiError(.userNotLoggedIn, from: "C_FindObjectsInit"),
        ]
        for error in errors {
            let recovery = RecoveryPolicy()
            #expect(recovery.next(after: error) == nil)
            recovery.hasRepeatableLogin = true
            #expect(recovery.next(after: error) == .logInAgain)
            #expect(recovery.next(after: error) == nil)
        }
        let late = RecoveryPolicy()
        late.hasRepeatableLogin = true
        #expect(late.next(after: CryptokiError(.touchTimedOut, reason: "")) == .findTokenAgain)
    }

    private static let ykcs11 = ModuleProfile.ykcs11(.init(major: 2, minor: 20))

    @Test func `a module that shows no token is restarted if its state may be stale`() {
        let absent = CryptokiError(.tokenAbsent, reason: "")
        for profile in [ModuleProfile.generic, Self.ykcs11] {
            let recovery = RecoveryPolicy(profile)
            #expect(recovery.next(after: absent) == .findTokenAgain)
            #expect(recovery.next(after: absent) == nil)
            recovery.showsNoToken = true
            let step: RecoveryPolicy.Step? = profile.cachesStaleState ? .restartModule : nil
            #expect(recovery.next(after: absent) == step)
            #expect(recovery.next(after: absent) == nil)
        }
    }

    @Test func `an unexpected state of the token counts after a restart of the module`() {
        let recovery = RecoveryPolicy(Self.ykcs11)
        #expect(recovery.mayBeStale)
        #expect(recovery.next(after: CryptokiError(.stale, reason: "")) == .restartModule)
        #expect(!recovery.mayBeStale)
        #expect(!RecoveryPolicy().mayBeStale)
    }

    @Test(arguments: [
        CryptokiError.Kind.timedOut, .unresponsive, .cancelled, .loginNeeded, .unsound, .malformed,
    ])
    func `other errors are not repeated`(_ kind: CryptokiError.Kind) {
        let recovery = RecoveryPolicy()
        #expect(recovery.next(after: CryptokiError(kind, reason: "")) == nil)
    }
}
