public import Latchkey

extension KeystoreContract {
    /// What a device is like, where devices rightly differ. The default is a TPM's nature.
    public struct Device: Sendable {
        /// Whose the PIN is.
        public enum PINOwner: Sendable {
            /// Each key has its own, set at its birth.
            case perKey
            /// The device has one, which is set already.
            case ofDevice(String)
            /// The device asks for the proof at its own pad or sensor. The closure shows it one: `.pin` with
            /// ``Device/rightPIN`` is the right one, with any other text a wrong one, `.decline` is a person who walks
            /// away.
            case atReader(@Sendable (ScriptedPresence.Step) async -> Void)
        }

        /// What guards the PIN against guessing.
        public enum Guessing: Sendable {
            /// The device counts, and tells how many attempts are left.
            case counted
            /// The device locks after so many wrong PINs, and tells nothing before, or only that one attempt is left.
            case locks(after: Int)
            /// The device locks after so many wrong PINs, and tells that only to who tries one more.
            case locksSilently(after: Int)
            /// Nothing does.
            case unlimited
        }

        /// Whose the PIN is.
        public var pin: PINOwner
        /// What guards it against guessing.
        public var guessing: Guessing
        /// The policy of guarded keys.
        public var guardedPolicy: AccessPolicy
        /// How many bytes a PIN may have.
        public var pinBytes: ClosedRange<Int>
        /// Whether a PIN may have nothing but the digits 0 to 9.
        public var takesDigitsOnly: Bool
        /// The security officer's PIN, where keys are made with it.
        public var officerPIN: String?
        /// Whether a deleted key is gone.
        public var canDelete: Bool
        /// Whether it has but one key for each policy.
        public var hasOneKeyPerPolicy: Bool
        /// Whether deleting a key lets go of it and leaves it where it was: those that were there before (adopted).
        public var lendsKeys: Bool
        /// Whether it has signing keys that need nobody (the policy `.none`).
        public var hasOpenKeys: Bool
        /// Whether it seals for nobody in particular (the policy `.none`).
        public var sealsOpenly: Bool
        /// Whether it can seal.
        public var canSeal: Bool
        /// The presence broker, where its owner's program has one.
        public var broker: PresenceBroker?

        /// A device; by default like a TPM.
        public init(
            pin: PINOwner = .perKey, guessing: Guessing = .counted, guardedPolicy: AccessPolicy = .pin,
            pinBytes: ClosedRange<Int> = PIN.minimumCharacters...PIN.maximumBytes, takesDigitsOnly: Bool = false,
            officerPIN: String? = nil,
            canDelete: Bool = true, lendsKeys: Bool = false, hasOneKeyPerPolicy: Bool = false,
            hasOpenKeys: Bool = true, sealsOpenly: Bool? = nil, canSeal: Bool = true,
            broker: PresenceBroker? = nil
        ) {
            self.pin = pin
            self.guessing = guessing
            self.guardedPolicy = guardedPolicy
            self.pinBytes = pinBytes
            self.takesDigitsOnly = takesDigitsOnly
            self.officerPIN = officerPIN
            self.canDelete = canDelete
            self.hasOneKeyPerPolicy = hasOneKeyPerPolicy
            self.lendsKeys = lendsKeys
            self.hasOpenKeys = hasOpenKeys
            self.sealsOpenly = sealsOpenly ?? hasOpenKeys
            self.canSeal = canSeal
            self.broker = broker
        }

        /// The PIN that is right at first.
        public var rightPIN: String {
            guard case .ofDevice(let pin) = pin else { return "correct" }
            return pin
        }
    }
}

extension KeystoreContract.Device {
    /// What a person answers.
    enum Proof: Sendable {
        /// The right PIN.
        case right
        /// A wrong one, as long as the right one.
        case wrong
        /// The one that it is changed to.
        case new
        case pin(String)
        case declined
    }

    /// Where another PIN differs from the right one.
    private enum Place {
        case first, last
    }

    /// The PINs that people type on this device, from the right one.
    func person(_ proofs: [Proof]) -> ScriptedPresence {
        let steps = proofs.map { proof -> ScriptedPresence.Step in
            switch proof {
            case .right: .pin(rightPIN)
            case .wrong: .pin(otherPIN(.first))
            case .new: .pin(otherPIN(.last))
            case .pin(let text): .pin(text)
            case .declined: .decline
            }
        }
        guard case .atReader(let show) = pin else {
            return ScriptedPresence(steps, broker: broker, officerPIN: officerPIN)
        }
        return ScriptedPresence(steps, officerPIN: officerPIN, reader: show)
    }

    /// Whether the text may be its PIN.
    func takes(_ pin: String) -> Bool {
        pinBytes.contains(pin.utf8.count)
            && (!takesDigitsOnly || pin.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    }

    /// What the hardware demands for a guarded key.
    var enforcedPresence: AssuranceLevel.EnforcedPresence {
        guardedPolicy.requirement == .pin ? .pin : .fingerOrPIN
    }

    /// The purposes of the PINs that are asked for.
    func purposes(birth: Int, uses: Int) -> [PINRequest.Purpose] {
        switch pin {
        case .perKey: Array(repeating: .new, count: birth) + Array(repeating: .current, count: uses)
        case .ofDevice: Array(repeating: .current, count: birth + uses)
        case .atReader: []
        }
    }

    /// The right PIN with another character at one end; digits stay digits, for tokens that take nothing else.
    private func otherPIN(_ place: Place) -> String {
        switch place {
        case .first: (rightPIN.hasPrefix("9") ? "8" : "9") + rightPIN.dropFirst()
        case .last: rightPIN.dropLast() + (rightPIN.hasSuffix("9") ? "8" : "9")
        }
    }
}
