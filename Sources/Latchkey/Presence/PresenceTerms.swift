package import FoundationEssentials

/// What a key of one user must be bound to, so that the presence broker can approve its use under one policy.
package struct PresenceTerms: Hashable, Sendable {
    /// The user for whom the broker will approve, as a POSIX number.
    package var user: UInt32
    /// The public area of the broker's key (`TPMT_PUBLIC`).
    package var authority: Data
    /// Where that key is in the TPM, if it is there to stay.
    package var authorityHandle: UInt32?
    /// A digest of the fingers enrolled now, 32 bytes; for a policy that dies with them only.
    package var enrolmentSet: Data?
    /// The TPM's counter of changes of those fingers, where it has room for one.
    package var counter: Counter?
    /// The user's own PIN, where it is set.
    package var userPIN: UserPIN?

    /// A counter in the TPM.
    package struct Counter: Hashable, Sendable {
        /// The index's public area (`TPMS_NV_PUBLIC`).
        package var publicArea: Data
        /// Its value now.
        package var value: UInt64

        /// A counter as the broker found it.
        package init(publicArea: Data, value: UInt64) {
            self.publicArea = publicArea
            self.value = value
        }
    }

    /// A PIN in the TPM that counts its own wrong attempts.
    package struct UserPIN: Hashable, Sendable {
        /// The index's public area (`TPMS_NV_PUBLIC`), after its first write.
        package var publicArea: Data
        /// The policy under which the broker writes the count, a digest of 32 bytes: the other branch of the index's
        /// policy changes the PIN.
        package var resetPolicy: Data

        /// A PIN as the broker made it.
        package init(publicArea: Data, resetPolicy: Data) {
            self.publicArea = publicArea
            self.resetPolicy = resetPolicy
        }
    }

    /// Terms as the broker states them.
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
