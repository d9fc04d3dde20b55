public import Testing

extension KeystoreContract {
    /// One thing that every keystore must do, in words.
    public enum Requirement: String, CaseIterable, Sendable, CustomTestStringConvertible {
        /// It signs with a key that needs nobody, and asks nobody.
        case signsWithoutPresence = "signs with a key that needs nobody, and asks nobody"
        /// It asks for a new PIN at a key's birth and for the current one at each signature.
        case signsWithPIN = "asks for a new PIN at a key's birth and for the current one at each signature"
        /// It makes another key each time.
        case eachKeyIsNew = "makes another key each time"
        /// It uses a key and a secret that went through storage.
        case anotherInstanceUsesTheKey = "uses a key and a secret that went through storage"
        /// It signs for many tasks at once.
        case signsConcurrently = "signs for many tasks at once"
        /// It deletes a key that is gone already.
        case deletesTwice = "deletes a key that is gone already"
        /// It attests its keys, or says that it can't.
        case attests = "attests its keys, or says that it can't"
        /// It refuses a wrong PIN and says how many attempts are left.
        case refusesWrongPIN = "refuses a wrong PIN and says how many attempts are left"
        /// It locks after too many wrong PINs, and then asks nobody.
        case locksOut = "locks after too many wrong PINs, and then asks nobody"
        /// It makes no key when the person declines.
        case declinedAtBirth = "makes no key when the person declines"
        /// It signs nothing when the person declines, and counts no attempt.
        case declinedAtUse = "signs nothing when the person declines, and counts no attempt"
        /// It passes on that there is nobody to ask.
        case nobodyToAsk = "passes on that there is nobody to ask"
        /// It takes PINs of any script, in any composition.
        case takesAnyScript = "takes PINs of any script, in any composition"
        /// It looks at every character of a long PIN.
        case everyCharacterCounts = "looks at every character of a long PIN"
        /// It changes the PIN of keys and secrets with two prompts.
        case changesPIN = "changes the PIN of keys and secrets with two prompts"
        /// It changes no PIN without the old one.
        case changeNeedsOldPIN = "changes no PIN without the old one"
        /// It changes no PIN when the person declines the new one.
        case declinedChange = "changes no PIN when the person declines the new one"
        /// It gives back 32 bytes that it sealed for nobody in particular.
        case sealsWithoutPresence = "gives back 32 bytes that it sealed for nobody in particular"
        /// It gives back 32 bytes that it sealed under a PIN, for that PIN only.
        case sealsWithPIN = "gives back 32 bytes that it sealed under a PIN, for that PIN only"
        /// It seals nothing but 32 bytes.
        case seals32BytesOnly = "seals nothing but 32 bytes"
        /// It takes back what it sealed revocably, or says that it can't.
        case takesBack = "takes back what it sealed revocably, or says that it can't"
        /// It takes back a revocable key with its deletion, and its old PIN with a change, or says that it can't.
        case takesBackKeys = "takes back revocable keys and their old PINs, or says that it can't"
        /// It lets one proof serve for its policy's time, or says that it can't.
        case reusesProof = "lets one proof serve for its policy's time, or says that it can't"
        /// It asks again after all reuse was ended.
        case endsReuse = "asks again after all reuse was ended"
        /// It keeps no proof that was being given when all reuse was ended.
        case endsReuseMidway = "keeps no proof that was being given when all reuse was ended"
        /// It gives nothing for an earlier proof to who takes none.
        case asksAnewWhereTold = "gives nothing for an earlier proof to who takes none"
        /// It refuses policies that it can't enforce, and asks nobody.
        case refusesUnsupportedPolicies = "refuses policies that it can't enforce, and asks nobody"
        /// It notices every damage to a stored key.
        case damagedKey = "notices every damage to a stored key"
        /// It notices every damage to a stored secret.
        case damagedSecret = "notices every damage to a stored secret"
        /// It gives no right to an edited policy.
        case editedPolicy = "gives no right to an edited policy"
        /// It notices an edited public key.
        case editedPublicKey = "notices an edited public key"
        /// It refuses what another device made.
        case otherDevice = "refuses what another device made"

        public var testDescription: String { rawValue }
    }
}
