package import FoundationEssentials

/// The parameters to which a user's key must be bound, so that the presence broker can approve its
/// use under one policy.
package struct PresenceTerms: Hashable, Sendable {
    /// The user for whom the broker approves, as a POSIX user ID.
    package var user: UInt32
    /// The public area of the broker's key (`TPMT_PUBLIC`).
    package var authority: Data
    /// The persistent handle of that key in the TPM, if it has one.
    package var authorityHandle: UInt32?
    /// A digest of the fingerprints enrolled now, 32 bytes; only for a policy that depends on them.
    package var enrolmentSet: Data?
    /// The TPM's counter of enrolment changes, if it has room for one.
    package var counter: Counter?
    /// The user's own PIN, if it is set.
    package var userPIN: UserPIN?

    /// A counter in the TPM.
    package struct Counter: Hashable, Sendable {
        /// The index's public area (`TPMS_NV_PUBLIC`).
        package var publicArea: Data
        /// The current value.
        package var value: UInt64

        package init(publicArea: Data, value: UInt64) {
            self.publicArea = publicArea
            self.value = value
        }
    }

    /// A PIN in the TPM that counts its own wrong attempts.
    package struct UserPIN: Hashable, Sendable {
        /// The index's public area (`TPMS_NV_PUBLIC`), after its first write.
        package var publicArea: Data
        /// The policy under which the broker writes the count, a digest of 32 bytes. The other
        /// branch of the index's policy changes the PIN.
        package var resetPolicy: Data

        package init(publicArea: Data, resetPolicy: Data) {
            self.publicArea = publicArea
            self.resetPolicy = resetPolicy
        }
    }

    package init(
        user: UInt32, authority: Data, authorityHandle: UInt32? = nil, enrolmentSet: Data? = nil,
        counter: Counter? = nil, userPIN: UserPIN? = nil
    ) {
        self.user = user
        self.authority = authority
        self.authorityHandle = authorityHandle
        self.enrolmentSet = enrolmentSet
        self.counter = counter
        self.userPIN = userPIN
    }
}

/// A place for a user's PIN, as the broker allocated it. It contains a random value, which the
/// user's own program replaces by the PIN. The broker never learns the PIN.
package struct UnsetUserPIN: Hashable, Sendable {
    /// The place of the PIN in the hardware.
    package var pin: PresenceTerms.UserPIN
    /// The random value.
    package var initialValue: SecretBytes

    package init(pin: PresenceTerms.UserPIN, initialValue: SecretBytes) {
        self.pin = pin
        self.initialValue = initialValue
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(pin) }
}
