import Crypto
import Latchkey
import LatchkeyTestSupport
import Testing

@Suite struct `The keystore contract` {
    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `can be met`(_ requirement: KeystoreContract.Requirement) async throws {
        try await contract(nil).check(requirement)
    }

    @Test(arguments: PaperKeystore.Fault.allCases)
    func `detects each violation`(_ fault: PaperKeystore.Fault) async throws {
        await withKnownIssue { try await contract(fault).check(requirement(broken: fault)) }
    }

    private func requirement(broken fault: PaperKeystore.Fault) -> KeystoreContract.Requirement {
        switch fault {
        case .asksAgain: .refusesWrongPIN
        case .ignoresPIN: .sealsWithPIN
        case .readsHalfThePIN: .everyCharacterCounts
        case .believesTheRow: .editedPolicy
        case .weakensPolicies: .refusesUnsupportedPolicies
        case .asksWhenLocked: .locksOut
        case .sealsAnything: .seals32BytesOnly
        case .keepsOldPIN: .changesPIN
        case .repeatsItself: .eachKeyIsNew
        case .overlooksTheEnd: .damagedKey
        case .takesNoForAnError: .declinedAtUse
        case .forgetsToCount: .locksOut
        case .checksNoPublicKey: .editedPublicKey
        case .takesAnyDevice: .otherDevice
        case .attestsAnything: .attests
        case .promisesAttestation: .attestsInForms
        case .sharesItsIdentity: .keepsIssuersApart
        case .asksEachTime: .reusesProof
        case .neverForgets: .endsReuse
        case .keepsLateProofs: .endsReuseMidway
        case .revokesNoSecret: .revokesSecrets
        case .revokesNoKey: .revokesKeys
        case .liftsLockoutWithoutProof: .liftsNoLockoutWithoutProof
        case .takesAnyLabel: .refusesHiddenLabels
        case .ignoresForbiddenReuse, .keepsForbiddenProofs: .promptsWhenReuseIsForbidden
        }
    }

    private func contract(_ fault: PaperKeystore.Fault?) -> KeystoreContract {
        let device = SymmetricKey(size: .bits256)
        return KeystoreContract(
            open: { PaperKeystore(device: device, fault: fault) },
            openOther: { body in try await body(PaperKeystore(fault: fault)) })
    }
}
