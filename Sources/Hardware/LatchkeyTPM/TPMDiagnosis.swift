internal import FoundationEssentials
package import Latchkey
internal import TPM2

/// The state of a TPM, for administrators.
package struct TPMDiagnosis: Sendable {
    /// The object at 0x81000001.
    package enum StorageRootKey: String, Hashable, Sendable {
        /// No object. Latchkey creates the storage root key with the first key.
        case absent
        /// The TCG's ECC key.
        case present
        /// A key of another kind. Latchkey does not change it and derives its own for each
        /// operation, which is slower.
        case foreign
    }

    /// The result of the comparison of the storage root key with the pinned one.
    package enum Pin: String, Hashable, Sendable {
        /// No key is pinned yet.
        case none
        /// The TPM has the pinned key.
        case same
        /// The TPM has no storage root key, and deriving one requires the owner's password.
        case undecided
        /// The store's keys belong to another TPM, or this TPM was cleared.
        case different
    }

    /// The identity of the TPM.
    package let identity: TPMIdentity
    /// The object at the handle of the storage root key.
    package let storageRootKey: StorageRootKey
    /// Whether the TPM has the pinned storage root key.
    package let pin: Pin
    /// Whether the owner's password is set. Latchkey then cannot create a storage root key or
    /// revocable keys and secrets.
    package let isOwnerPasswordSet: Bool
    /// Whether an NV index is free for another revocable key or secret.
    package let hasPlaceForRevocable: Bool
    /// Whether the lockout password is set. Without one, all users of the TPM can reset the count
    /// of wrong PINs.
    package let isLockoutPasswordSet: Bool
    /// The seconds for which the TPM refuses the lockout password at most, after a wrong one; 0 if it
    /// refuses it until the machine restarts; nil if it accepts one now.
    package let lockoutPasswordBlock: UInt32?
    /// The TPM's count of wrong PINs.
    package fileprivate(set) var pinStatus: PINStatus
    /// The error of ``TPMKeystore/rehearse()``; nil if keys can be created and used.
    package let obstacle: KeystoreError?

    /// The command that sets the lockout password. tpm2-tools reads the password from standard
    /// input, so that it is not in the process list. Without the last argument the command sets an
    /// empty password.
    package static let lockoutPasswordCommand = "sudo tpm2_changeauth -c lockout file:-"

    /// The commands that create the storage root key if the owner has a password. They read the
    /// password from standard input, once each.
    ///
    /// - Parameter tcti: The option that directs them to another TPM, with a space before it.
    package static func storageRootKeyCommand(_ tcti: String = "") -> String {
        "sudo tpm2_createprimary -C owner -P file:- -g sha256 -G ecc256:aes128cfb "
            + "-a 'fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|decrypt' "
            + "-c /run/latchkey-srk.context\(tcti) && sudo tpm2_evictcontrol -C owner -P file:- "
            + "-c /run/latchkey-srk.context 0x81000001\(tcti)"
    }

    /// The command that removes the owner's password, which it reads from standard input.
    package static let removeOwnerPasswordCommand = "sudo tpm2_changeauth -c owner -p file:-"

    /// The command that makes the TPM lock after 31 wrong PINs and restore one attempt every ten
    /// minutes. It reads the lockout password from standard input.
    package static let limitCommand =
        "sudo tpm2_dictionarylockout --setup-parameters --max-tries=31 --recovery-time=600 "
        + "--lockout-recovery-time=86400 --auth file:-"

    /// The command that removes the storage root key. The next command that creates a key derives
    /// the same key again.
    package static let removeStorageRootKeyCommand =
        "sudo tpm2_evictcontrol -C owner -c 0x81000001"
}

/// The identity that a TPM reports (TPM 2.0 Part 2 section 6.13).
package struct TPMIdentity: Hashable, Sendable {
    /// The vendor's letters in the TCG's registry, for example `STM`, `IFX`, `INTC`, `AMD`, `IBM`.
    package let manufacturer: String
    /// The vendor's name for the chip, for example `SLB9670`.
    package let model: String
    /// For example `7.85`.
    package let firmware: String
    /// The kind of TPM that it reports to be. Any program that emulates a TPM can report any kind;
    /// only the certificate of its endorsement key proves one.
    package enum Kind: Hashable, Sendable {
        /// swtpm, as developers and virtual machines use it.
        case software
        /// A virtual TPM of this hypervisor, whose operator has the keys.
        case virtual(String)
        /// Microsoft's implementation: firmware TPMs, virtual machines of Hyper-V and Azure, and
        /// the simulator of the specification report the same.
        case microsoft
        /// Any other.
        case other
    }

    /// The kind of TPM that it reports to be.
    package let kind: Kind
    /// Whether it reports to be a software TPM. A key is then never called one in hardware.
    package var isSimulated: Bool { kind == .software }

    /// Manufacturer, model and firmware, for example `IFX SLB9670 firmware 7.85`.
    package var description: String { "\(manufacturer) \(model) firmware \(firmware)" }

    init(_ tpm: TPM) throws(TPMError) {
        let properties = try tpm.properties(from: .revision, count: 11)
        manufacturer = Self.words(in: [properties[.manufacturer] ?? 0])
        model = Self.words(in: TPMProperty.vendorStrings.map { properties[$0] ?? 0 })
        let version = properties[.firmwareVersion1] ?? 0
        firmware = "\(version >> 16).\(version & 0xffff)"
        kind = Kind(manufacturer: manufacturer, model: model)
    }

    /// Decodes four letters in each value. Omits bytes that are not printable ASCII, and
    /// superfluous spaces.
    private static func words(in values: [UInt32]) -> String {
        let bytes = values.flatMap(\.marshalled).filter { (0x20...0x7e).contains($0) }
        return String(decoding: bytes, as: UTF8.self).split(separator: " ").joined(separator: " ")
    }
}

extension TPMIdentity.Kind {
    /// - Parameters:
    ///   - manufacturer: ``TPMIdentity/manufacturer``. A Chromebook's chip (`CROS`) has the same
    ///     model as Microsoft's implementation, so that the model alone says nothing.
    ///   - model: ``TPMIdentity/model``.
    init(manufacturer: String, model: String) {
        self =
            switch manufacturer {
            case "IBM" where model.hasPrefix("SW"): .software
            case "AMZN": .virtual("Amazon EC2")
            case "GOOG": .virtual("Google Cloud")
            case "VMW": .virtual("VMware")
            case "MSFT": .microsoft
            default: .other
            }
    }
}

extension TPMKeystore {
    /// Examines the TPM without a change, and tries to create and use keys.
    package func diagnose() async throws(KeystoreError) -> TPMDiagnosis {
        do throws(KeystoreError) {
            let pinned = try await pinnedRoot()
            let parents = pinned == nil ? try await storedParents() : []
            let obstacle = await obstacle()
            var diagnosis = try await withTPM { (tpm) throws(TPMError) in
                try tpm.diagnosis(pinned, parents, obstacle)
            }
            if diagnosis.pinStatus.isLockedOut { diagnosis.pinStatus = try await lockoutStatus() }
            return diagnosis
        } catch { throw error.during("read the state of the TPM") }
    }

    private func obstacle() async -> KeystoreError? {
        do throws(KeystoreError) {
            try await rehearse()
            return nil
        } catch { return error }
    }
}

extension TPM {
    fileprivate func diagnosis(
        _ pinned: StorageRoot?, _ parents: Set<TPMName>, _ obstacle: KeystoreError?
    ) throws(TPMError) -> TPMDiagnosis {
        let state = try storageRootState()
        let isHandleFree = try freeIndex(in: RevocableSecret.indices) != nil
        // TPMA_PERMANENT (Part 2 section 8.6): bit 0 ownerAuthSet, bit 2 lockoutAuthSet.
        let permanent = try properties(from: .permanent, count: 1)[.permanent] ?? 0
        let lockout = try LockoutState(self)
        let isOwnerPasswordSet = permanent & 1 != 0
        return TPMDiagnosis(
            identity: try TPMIdentity(self), storageRootKey: state.kind,
            pin: try comparison(of: state, with: pinned, parents, mayCreate: !isOwnerPasswordSet),
            isOwnerPasswordSet: isOwnerPasswordSet, hasPlaceForRevocable: isHandleFree,
            isLockoutPasswordSet: permanent & TPM.lockoutAuthSet != 0,
            lockoutPasswordBlock: try refusesLockoutPassword() ? lockout.recovery : nil,
            pinStatus: lockout.status(since: Date()), obstacle: obstacle)
    }

    /// Whether the TPM refuses the lockout password after a wrong one. No property says so.
    ///
    /// Authorizes a command with a policy for another command, which always fails, and contains no
    /// password, so that it is no attempt. Because the policy includes the authValue, the TPM checks
    /// before the policy whether it accepts one (TPM 2.0 Part 4, CheckAuthSession).
    private func refusesLockoutPassword() throws(TPMError) -> Bool {
        do throws(TPMError) {
            try withSession(.policy, saltedTo: nil) { (session) throws(TPMError) in
                try execute(PolicyCommandCode(.nvChangeAuth), in: session)
                try execute(PolicyAuthValue(), in: session)
                try execute(DictionaryAttackLockReset(), authorizedBy: .lastUse(of: session))
            }
            return false
        } catch {
            guard error.responseCode != nil else { throw error }
            return error.command == .dictionaryAttackLockReset
                && error.responseCode?.base == .lockout
        }
    }

    /// If the key is not persistent, derives it from the owner's seed for the comparison. A TPM
    /// that was cleared has another seed.
    private func comparison(
        of state: StorageRootState, with pinned: StorageRoot?, _ parents: Set<TPMName>,
        mayCreate: Bool
    ) throws(TPMError) -> TPMDiagnosis.Pin {
        if case .usable(let object) = state, parents.contains(where: { $0 != object.name }) {
            return .different
        }
        let comparison = state.compared(with: pinned)
        guard comparison == .undecided, let pinned else { return comparison }
        guard mayCreate else {
            // A key of the same kind at the handle is most likely that of another TPM.
            return if case .usable = state { .different } else { .undecided }
        }
        return try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            primary.name == pinned.name ? .same : .different
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
        case .usable(let object): return object.name == pinned.name ? .same : .undecided
        case .absent, .foreign: return .undecided
        }
    }
}
