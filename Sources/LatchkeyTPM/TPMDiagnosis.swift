package import Latchkey

/// What an administrator wants to know about a TPM before trusting keys to it.
package struct TPMDiagnosis: Hashable, Sendable {
    /// What is at 0x81000001.
    package enum StorageRootKey: String, Hashable, Sendable {
        /// Nothing: it is made with the first key.
        case absent
        /// The TCG's ECC key, usable.
        case present
        /// Somebody else's key. Latchkey leaves it alone and makes its own for each operation, which is slower.
        case foreign
    }

    /// How the storage root key compares with the pinned one.
    package enum Pin: String, Hashable, Sendable {
        /// Nothing is pinned yet.
        case none
        /// The pinned one is in the TPM.
        case same
        /// There is no storage root key to compare with, and none can be made without the owner's password.
        case undecided
        /// The store's keys belong to another TPM, or this TPM was cleared since.
        case different
    }

    /// Which TPM it is.
    package let identity: TPMIdentity
    /// Whether the storage root key is there.
    package let storageRootKey: StorageRootKey
    /// Whether the pinned storage root key is the one in the TPM.
    package let pin: Pin
    /// Whether the owner's password is set. Then Latchkey can't make a storage root key, nor a secret that can be taken
    /// back.
    package let isOwnerPasswordSet: Bool
    /// Whether there is a place left for one more secret that can be taken back.
    package let hasPlaceForRevocable: Bool
    /// Whether the password that ends a lockout is set. Without one, every user of the device can reset the count of wrong
    /// PINs.
    package let isLockoutPasswordSet: Bool
    /// How the TPM counts wrong PINs.
    package let pinStatus: PINStatus
    /// Whether the TPM has P-256 with ECDSA and SHA-256.
    package let hasP256: Bool

    /// The command that sets the lockout password. tpm2-tools reads it from standard input, so that it is in no list of
    /// processes; without the last argument the command sets an empty password.
    package static let lockoutPasswordCommand = "sudo tpm2_changeauth -c lockout file:-"

    /// Whether a key can be made now.
    package var canCreateKeys: Bool {
        hasP256 && pin != .different && (storageRootKey == .present || !isOwnerPasswordSet)
    }
}
