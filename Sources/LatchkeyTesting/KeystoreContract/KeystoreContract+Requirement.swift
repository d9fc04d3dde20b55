public import Testing

extension KeystoreContract {
    /// One thing that every keystore must do, in words.
    public enum Requirement: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case signsWithoutPresence = "signs with a key that needs nobody, and asks nobody"
        case signsWithPIN = "asks for a new PIN at a key's birth and for the current one at each signature"
        case eachKeyIsNew = "makes another key each time"
        case anotherInstanceUsesTheKey = "uses a key and a secret that went through storage"
        case signsConcurrently = "signs for many tasks at once"
        case deletesTwice = "deletes a key that is gone already"
        case attests = "attests its keys, or says that it can't"
        case refusesWrongPIN = "refuses a wrong PIN and says how many attempts are left"
        case locksOut = "locks after too many wrong PINs, and then asks nobody"
        case declinedAtBirth = "makes no key when the person declines"
        case declinedAtUse = "signs nothing when the person declines, and counts no attempt"
        case nobodyToAsk = "passes on that there is nobody to ask"
        case takesAnyScript = "takes PINs of any script, in any composition"
        case everyCharacterCounts = "looks at every character of a long PIN"
        case changesPIN = "changes the PIN of keys and secrets with two prompts"
        case changeNeedsOldPIN = "changes no PIN without the old one"
        case declinedChange = "changes no PIN when the person declines the new one"
        case sealsWithoutPresence = "gives back 32 bytes that it sealed for nobody in particular"
        case sealsWithPIN = "gives back 32 bytes that it sealed under a PIN, for that PIN only"
        case seals32BytesOnly = "seals nothing but 32 bytes"
        case takesBack = "takes back what it sealed revocably, or says that it can't"
        case reusesProof = "lets one proof serve for its policy's time, or says that it can't"
        case endsReuse = "asks again after all reuse was ended"
        case endsReuseMidway = "keeps no proof that was being given when all reuse was ended"
        case asksAnewWhereTold = "gives nothing for an earlier proof to who takes none"
        case refusesUnsupportedPolicies = "refuses policies that it can't enforce, and asks nobody"
        case damagedKey = "notices every damage to a stored key"
        case damagedSecret = "notices every damage to a stored secret"
        case editedPolicy = "gives no right to an edited policy"
        case editedPublicKey = "notices an edited public key"
        case otherDevice = "refuses what another device made"

        public var testDescription: String { rawValue }
    }
}
