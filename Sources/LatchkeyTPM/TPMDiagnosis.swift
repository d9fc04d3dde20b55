package import Latchkey
internal import TPM2

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

/// Which TPM it is, by its own account (TPM 2.0 Part 2 section 6.13).
package struct TPMIdentity: Hashable, Sendable {
    /// The vendor's letters in the TCG's registry, for example `STM`, `IFX`, `INTC`, `AMD`, `IBM`.
    package let manufacturer: String
    /// The vendor's name for the chip, for example `SLB9670`.
    package let model: String
    /// For example `7.85`.
    package let firmware: String
    /// Whether it says that it is software: swtpm, or the specification's reference implementation.
    package let isSimulated: Bool

    /// All three in a line, for example `IFX SLB9670 firmware 7.85`.
    package var description: String { "\(manufacturer) \(model) firmware \(firmware)" }

    init(_ tpm: TPM) throws(TPMError) {
        let properties = try tpm.properties(from: .revision, count: 11)
        let strings: [TPMProperty] = [.vendorString1, .vendorString2, .vendorString3, .vendorString4]
        manufacturer = Self.text(properties[.manufacturer] ?? 0).trimmed
        model = strings.map { Self.text(properties[$0] ?? 0) }.joined().split(separator: " ").joined(separator: " ")
        let version = properties[.firmwareVersion1] ?? 0
        firmware = "\(version >> 16).\(version & 0xffff)"
        isSimulated = manufacturer == "IBM" && model.hasPrefix("SW") || model == "xCG fTPM"
    }

    /// Four letters in a number; what is not printable ASCII is left out.
    private static func text(_ value: UInt32) -> String {
        let bytes = withUnsafeBytes(of: value.bigEndian) { Array($0) }
        return String(decoding: bytes.filter { (0x20...0x7e).contains($0) }, as: UTF8.self)
    }
}

extension String {
    fileprivate var trimmed: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}

extension TPMKeystore {
    /// Looks at the TPM and changes nothing.
    package func diagnose() async throws(KeystoreError) -> TPMDiagnosis {
        let pinned = try await pinnedRoot("look at the TPM")
        let parents = pinned == nil ? try await storedParents() : []
        return try await visit("look at the TPM") { (tpm) throws(TPMError) in try tpm.diagnosis(pinned, parents) }
    }
}

extension TPM {
    fileprivate func diagnosis(_ pinned: StorageRoot?, _ parents: Set<TPMName>) throws(TPMError) -> TPMDiagnosis {
        let state = try storageRootState()
        let hasCurve = try curves().contains(.nistP256)
        let signs = try signsWithP256()
        let isPlaceLeft = try freeIndex(in: RevocableSecret.indices) != nil
        // TPMA_PERMANENT (Part 2 section 8.6): bit 0 ownerAuthSet, bit 2 lockoutAuthSet.
        let permanent = try properties(from: .permanent, count: 1)[.permanent] ?? 0
        let isOwnerPasswordSet = permanent & 1 != 0
        return TPMDiagnosis(
            identity: try TPMIdentity(self), storageRootKey: state.kind,
            pin: try comparison(of: state, with: pinned, parents, mayMake: !isOwnerPasswordSet),
            isOwnerPasswordSet: isOwnerPasswordSet, hasPlaceForRevocable: isPlaceLeft,
            isLockoutPasswordSet: permanent & TPM.lockoutAuthSet != 0,
            pinStatus: try LockoutState(self).status, hasP256: hasCurve && signs)
    }

    /// Where the key is not in its place, one is made from the owner's seed, compared and forgotten: a TPM that was
    /// cleared has another seed.
    private func comparison(
        of state: StorageRootState, with pinned: StorageRoot?, _ parents: Set<TPMName>, mayMake: Bool
    ) throws(TPMError) -> TPMDiagnosis.Pin {
        if case .usable(let object) = state, parents.contains(where: { $0 != object.name }) { return .different }
        let comparison = state.compared(with: pinned)
        guard comparison == .undecided, mayMake, let pinned else { return comparison }
        return try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            primary.name == pinned.name ? .same : .different
        }
    }

    private func signsWithP256() throws(TPMError) -> Bool {
        do {
            try testParms(ECCParameters(scheme: .ecdsaSHA256))
            return true
        } catch {
            guard error.responseCode != nil else { throw error }
            return false
        }
    }
}

extension TPM.StorageRootState {
    fileprivate var kind: TPMDiagnosis.StorageRootKey {
        switch self {
        case .absent: .absent
        case .usable: .present
        case .foreign: .foreign
        }
    }

    fileprivate func compared(with pinned: StorageRoot?) -> TPMDiagnosis.Pin {
        guard let pinned else { return .none }
        switch self {
        case .usable(let object): return object.name == pinned.name ? .same : .different
        case .absent: return .undecided
        case .foreign: return pinned.location == .transient ? .same : .different
        }
    }
}
