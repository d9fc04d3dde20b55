import Testing

@testable import LatchkeyPKCS11

struct RecoveryLadderTests {
    @Test(arguments: [
        (ReturnValue.sessionHandleInvalid, [RecoveryLadder.Rung.reopenSession]),
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
    func `each error has its rungs, and each is climbed once`(
        _ value: ReturnValue, _ rungs: [RecoveryLadder.Rung]
    ) {
        var ladder = RecoveryLadder()
        let error = CryptokiError(value, from: "C_Sign")
        #expect(rungs.map { _ in ladder.next(after: error) } == rungs)
        #expect(ladder.next(after: error) == nil)
    }

    @Test func `errors in turn climb no rung twice`() {
        var ladder = RecoveryLadder()
        #expect(ladder.next(after: CryptokiError(.deviceRemoved, from: "C_Sign")) == .findTokenAgain)
        #expect(ladder.next(after: CryptokiError(.sessionHandleInvalid, from: "C_Sign")) == .reopenSession)
        #expect(ladder.next(after: CryptokiError(.deviceError, from: "C_Sign")) == .reinitializeModule)
        #expect(ladder.next(after: CryptokiError(.tokenNotPresent, from: "C_Sign")) == nil)
    }

    @Test(arguments: [CryptokiError.Kind.timedOut, .wedged, .cancelled, .loginNeeded, .unsound, .malformed])
    func `what is no loss is not repeated`(_ kind: CryptokiError.Kind) {
        var ladder = RecoveryLadder()
        #expect(ladder.next(after: CryptokiError(kind, reason: "")) == nil)
    }
}
