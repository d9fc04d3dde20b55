internal import FoundationEssentials
public import Latchkey
internal import Synchronization
public import TPM2
internal import TPM2TCTI

/// A keystore in a TPM 2.0.
///
/// Keys do not stay in the TPM. Its storage root key wraps each key, the caller stores the wrapped
/// key, and the TPM loads it for each use. The storage root key is the TCG's shared one at
/// 0x81000001. It is created if absent, never overwritten, and pinned in `anchors` at the first
/// use.
///
/// A PIN is converted into an authValue and proven in a session that is salted to the pinned key.
/// It never crosses the bus, and the TPM counts wrong PINs. For a fingerprint, the key's policy
/// requires the presence broker's signature over this use.
public struct TPMKeystore: RevokingKeystore, AttestingKeystore {
    public var mayHaveReader: Bool { false }

    /// The default device: the kernel's resource manager.
    package static let defaultTCTI = "device:/dev/tpmrm0"

    public let backend = "tpm"

    /// Whether a new PIN may have fewer than ``minimumPINCharacters`` on a TPM whose lockout
    /// password is empty.
    let allowsShortPINs: Bool
    let device: TPMDevice
    let anchors: any TrustAnchors
    let tickets = TicketCache()
    /// The last used key, decoded and checked.
    let decodedKey = Memo<HardwareKey, TPMKeyBlob>()
    /// The pinned storage root key, decoded.
    let decodedRoot = Memo<Data, StorageRoot>()
    /// Whether a new storage root key becomes persistent.
    let keepsStorageRoot: Bool

    /// The minimum length of a new PIN in characters, on a TPM whose lockout password is empty. All
    /// users of such a TPM can reset the count of wrong PINs and continue to guess. Does not apply
    /// to a PIN that the presence broker manages.
    package static let minimumPINCharacters = 6

    /// Uses the TPM at a TCTI string of tpm2-tss. Does not connect yet.
    ///
    /// - Parameters:
    ///   - tcti: The default is `device:/dev/tpmrm0`, the kernel's resource manager. Other examples
    ///     are `swtpm:path=/run/tpm.sock` and `tabrmd:`.
    ///   - anchors: The store that pins the storage root key. Keys of one store need the same
    ///     anchors.
    ///   - allowsShortPINs: Whether a new PIN may have fewer than 6 characters if the TPM counts it
    ///     and the lockout password is empty. Otherwise the error code is `invalidInput`.
    public init(tcti: String? = nil, anchors: any TrustAnchors, allowsShortPINs: Bool = false) {
        let tcti = tcti.flatMap { $0.isEmpty ? nil : $0 } ?? Self.defaultTCTI
        // The kernel's resource manager, and tpm2-abrmd.
        let isShared = tcti.hasPrefix("tabrmd") || tcti.hasPrefix("device:/dev/tpmrm")
        self.init(anchors: anchors, isShared: isShared, allowsShortPINs: allowsShortPINs) {
            () throws(TPMError) in
            try TCTIConnection(tcti)
        }
    }

    /// Uses a TPM through custom connections.
    ///
    /// - Parameters:
    ///   - isShared: Whether a resource manager gives each connection its own object slots, so that
    ///     a connection may stay open during a prompt.
    ///   - allowsShortPINs: As for ``init(tcti:anchors:allowsShortPINs:)``.
    ///   - connect: Called for each operation, on a thread that may block.
    public init(
        anchors: any TrustAnchors, isShared: Bool = false, allowsShortPINs: Bool = false,
        connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport
    ) {
        device = TPMDevice(isShared: isShared, connect: connect)
        self.anchors = anchors
        self.allowsShortPINs = allowsShortPINs
        keepsStorageRoot = true
    }

    /// A keystore in the same TPM for objects that are not kept: it has an empty store, and leaves
    /// nothing in the TPM.
    init(rehearsing keystore: TPMKeystore) {
        device = keystore.device
        anchors = MemoryTrustAnchors()
        allowsShortPINs = true
        keepsStorageRoot = false
    }

    public func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        do throws(KeystoreError) {
            let (identity, isOwnerOpen) = try await withTPM { (tpm) throws(TPMError) in
                (try TPMIdentity(tpm), try !tpm.isOwnerPasswordSet())
            }
            return KeystoreCapabilities(
                device: identity.description, root: identity.isSimulated ? .swtpm : .tpm,
                requirements: PresenceProtection.requirements, canAttest: true,
                sealsRevocably: isOwnerOpen)
        } catch { throw error.during("read the state of the TPM") }
    }

    /// Compares the secret's parent with this TPM's storage root key.
    public func owns(_ secret: SealedSecret) async -> Bool? {
        guard secret.backend == backend else { return false }
        let parent =
            (try? TPMKeyBlob(secret.blob))?.parentName
            ?? (try? RevocableSecret(secret.blob))?.parentName
        guard let parent else { return nil }
        if let known = device.knownRoots.withLock({ $0[parent] }) { return known }
        guard let isOwn = try? await hasRoot(named: parent) else { return nil }
        device.knownRoots.withLock { $0[parent] = isOwn }
        return isOwn
    }

    /// Reports another TPM before the user enters a PIN for it: one command at the first prompt of a
    /// process. Without a prompt, the use of the object reports it.
    ///
    /// The response is not authenticated, and decides only whether to prompt: no PIN is proven to
    /// another TPM.
    func checkHardware(
        of root: StorageRoot, before presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        guard presence.isInteractive,
            device.knownRoots.withLock({ $0[root.name] }) != true
        else { return }
        let isOwn = try await hasRoot(named: root.name)
        device.knownRoots.withLock { $0[root.name] = isOwn }
        guard isOwn else { throw Self.otherTPM() }
    }

    /// Discards the tickets for reuse. The TPM would accept them until they expire.
    public func endReuse() { tickets.empty() }

    /// Revokes a revocable key. The TPM holds no part of other keys, so discarding the stored value
    /// deletes them.
    public func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {
        if let authorization = key.authorization { try await revoke(authorization) }
    }

    /// Explains an error of the TPM in the context of an operation. May read further state from the
    /// TPM.
    typealias Explanation = (TPMError) async -> KeystoreError

    /// Runs `body` on one connection, on the TPM's thread.
    func withTPM<R: Sendable>(
        explainedBy explain: Explanation = { KeystoreError($0) },
        _ body: @Sendable (TPM) throws(TPMError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await device.run(body)
        } catch {
            throw await explain(error)
        }
    }
}
