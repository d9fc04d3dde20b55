import Latchkey
import Testing

@testable import LatchkeyPKCS11

struct KeystoreErrorMappingTests {
    @Test(arguments: [
        (ReturnValue.pinIncorrect, KeystoreError.Code.wrongProof), (.pinLocked, .lockedOut),
        (.deviceRemoved, .unavailable), (.deviceError, .unavailable), (.sessionCount, .transient),
        (.mechanismInvalid, .unsupported), (.userPINNotInitialized, .passcodeNotSet),
        (.functionCanceled, .cancelled), (.generalError, .failed),
    ])
    func `each code of the module has a keystore error code, and is kept as the underlying error`(
        _ value: ReturnValue, _ code: KeystoreError.Code
    ) {
        let error = KeystoreError(CryptokiError(value, from: "C_Sign"))
        #expect(error.code == code)
        #expect(error.underlying?.layer == "pkcs11")
        #expect(error.underlying?.rawCode == UInt32(value.rawValue))
    }

    @Test(arguments: [
        (CryptokiError.Kind.tokenAbsent, KeystoreError.Code.unavailable),
        (.noReaders, .unavailable),
        (.tokenAmbiguous, .conflict), (.keyAbsent, .notFound), (.occupied, .conflict),
        (.timedOut, .transient),
        (.unresponsive, .unavailable), (.cancelled, .cancelled), (.touchTimedOut, .cancelled),
        (.unsupported, .unsupported),
        (.unsound, .refused), (.invalidURI, .invalidInput), (.module(.missing), .unavailable),
        (.malformed, .failed),
        (.locked, .transient), (.lockUnavailable, .unavailable), (.leftUnlocked, .unavailable),
    ])
    func `each kind has its code`(_ kind: CryptokiError.Kind, _ code: KeystoreError.Code) {
        #expect(KeystoreError(CryptokiError(kind, reason: "it is so")).code == code)
    }

    @Test func `an unclear answer to a login may mean a wrong PIN`() {
        for value in [ReturnValue.generalError, .functionFailed] {
            let error = KeystoreError(CryptokiError(value, from: "C_Login"))
            #expect(error.code == .failed && error.recovery.contains("Check the PIN"))
            let other = KeystoreError(CryptokiError(value, from: "C_Sign"))
            #expect(!other.recovery.contains("PIN"))
        }
        let another = KeystoreError(CryptokiError(.userAnotherAlreadyLoggedIn, from: "C_Login"))
        #expect(another.code == .transient && another.reason.contains("another role"))
    }

    @Test func `the recovery of a blocked PIN depends on the module`() {
        let error = CryptokiError(.pinLocked, from: "C_Login")
        let opensc = ModuleProfile.opensc(.init(major: 0, minor: 23))
        #expect(
            KeystoreError(error, profile: opensc).recovery.contains("pkcs15-tool --unblock-pin"))
        #expect(KeystoreError(error, profile: .softhsm).recoveryAction.actions == [.unblockPIN])
    }

    @Test func `an error about another secret than the PIN names it`() {
        func error(_ value: ReturnValue, _ secret: TokenSecret) -> KeystoreError {
            KeystoreError(CryptokiError(value, from: "C_SetPIN"), checking: secret)
        }
        #expect(error(.pinIncorrect, .puk).reason == "the PUK is wrong")
        let blocked = error(.pinLocked, .puk)
        #expect(blocked.code == .lockedOut && blocked.recovery.contains("ykman piv reset"))
        #expect(
            error(.pinIncorrect, .securityOfficerPIN).reason
                == "the security officer's PIN is wrong")
        for value in [ReturnValue.pinIncorrect, .userPINNotInitialized, .argumentsBad] {
            for isProtected in [false, nil] {
                let wrong = error(value, .managementKey(isProtected: isProtected))
                #expect(wrong.code == .wrongProof && wrong.reason == "the management key is wrong")
            }
            #expect(
                error(value, .managementKey(isProtected: true)).recovery == "Enter the card's PIN.")
        }
        #expect(error(.userPINNotInitialized, .pin).code == .passcodeNotSet)
    }

    @Test func `a locked PIN at the prompt for the management key is unblocked like any other`() {
        let error = CryptokiError(.pinLocked, from: "C_Login")
        let ykcs11 = ModuleProfile.ykcs11(.init(major: 2, minor: 20))
        let locked = KeystoreError(
            error, profile: ykcs11, checking: .managementKey(isProtected: nil))
        #expect(locked.code == .lockedOut && locked.recovery.contains("with the PUK"))
        let blocked = KeystoreError.pinLocked(ykcs11, isPUKBlocked: true)
        #expect(blocked.code == .lockedOut && blocked.attemptsLeft == 0)
        #expect(
            blocked.recovery.contains("ykman piv reset") && blocked.recoveryAction.actions.isEmpty)
    }

    @Test func `the attempts left are added to a wrong proof only`() {
        let wrong = KeystoreError(
            CryptokiError(.pinIncorrect, from: "C_Login"), checking: .securityOfficerPIN)
        #expect(wrong.counting(1).attemptsLeft == 1)
        #expect(wrong.counting(1).recovery.hasPrefix("One attempt is left. "))
        #expect(wrong.counting(nil).attemptsLeft == nil)
        #expect(
            KeystoreError(CryptokiError(.pinLocked, from: "C_Login")).counting(1).attemptsLeft
                == nil)
    }

    @Test func `only modules that pack the patch number show three numbers`() {
        let version = ModuleInformation.Version(major: 2, minor: 20)
        #expect(ModuleProfile.ykcs11(version).text(of: version) == "2.2.0")
        #expect(ModuleProfile.ykcs11(version).text(of: .init(major: 5, minor: 43)) == "5.4.3")
        #expect(ModuleProfile.softhsm.text(of: .init(major: 2, minor: 61)) == "2.6.1")
        let opensc = ModuleInformation.Version(major: 0, minor: 23)
        #expect(ModuleProfile.opensc(opensc).text(of: opensc) == "0.23")
        #expect(ModuleProfile.generic.text(of: version) == "2.20")
    }

    @Test func `values that the standard does not name keep their number`() {
        #expect(ReturnValue(rawValue: 0x8000_0001).description == "an unknown value (0x80000001)")
        #expect(ReturnValue.pinIncorrect.description == "CKR_PIN_INCORRECT (0xa0)")
    }
}
