public import Latchkey
public import TPM2

/// Keys in a TPM 2.0.
///
/// Nothing of a key stays in the TPM: it is wrapped by the TPM's storage root key, handed to the caller, and loaded for
/// each use. The storage root key is the TCG's shared one at 0x81000001; it is made where it is absent, never
/// overwritten, and pinned in `anchors` at the first use.
///
/// A PIN is hardened into an authValue and proven in a session that is salted to the pinned key: it is never on the bus,
/// and the TPM counts wrong ones. A finger is the presence broker's signature over this very use, which the key's policy
/// has the TPM demand; see `PresenceProtection`.
public struct TPMKeystore: Keystore {
    /// The device that is used when no other is named: the kernel's resource manager.
    public static let defaultTCTI = "device:/dev/tpmrm0"

    public let backend = "tpm"

    /// Whether a PIN that the TPM counts may have fewer than ``minimumPINCharacters`` where the lockout password is empty.
    let allowsShortPINs: Bool
    let device: TPMDevice
    let anchors: any TrustAnchors
    let tickets = TicketDrawer()

    /// The fewest characters of a new PIN that the TPM counts, on a TPM whose lockout password is empty: there every user of
    /// the device can reset the count of wrong PINs, and guess again.
    public static let minimumPINCharacters = 6

    /// Uses the TPM at a TCTI string of tpm2-tss. Opens nothing yet.
    ///
    /// - Parameters:
    ///   - tcti: For example `device:/dev/tpmrm0`, `swtpm:path=/run/tpm.sock`, `tabrmd:`.
    ///   - anchors: Where the storage root key is pinned. Keys of one store need the same anchors.
    ///   - allowsShortPINs: Whether a new PIN may have fewer than ``minimumPINCharacters`` where the TPM counts it and the
    ///     lockout password is empty. Otherwise such a PIN is refused with `invalidInput`.
    public init(tcti: String? = nil, anchors: any TrustAnchors, allowsShortPINs: Bool = false) {
        let tcti = tcti.flatMap { $0.isEmpty ? nil : $0 } ?? Self.defaultTCTI
        // The kernel's resource manager, and tpm2-abrmd.
        let isShared = tcti.hasPrefix("tabrmd") || tcti.hasPrefix("device:/dev/tpmrm")
        self.init(anchors: anchors, isShared: isShared, allowsShortPINs: allowsShortPINs) { () throws(TPMError) in
            try TCTIConnection(tcti)
        }
    }

    /// Uses the TPM behind connections of another kind.
    ///
    /// - Parameters:
    ///   - isShared: Whether a resource manager gives each connection places of its own, so that one may be held while a
    ///     person is asked.
    ///   - allowsShortPINs: As for ``init(tcti:anchors:allowsShortPINs:)``.
    ///   - connect: Called for each operation, on a thread that may block.
    public init(
        anchors: any TrustAnchors, isShared: Bool = false, allowsShortPINs: Bool = false,
        connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport
    ) {
        device = TPMDevice(isShared: isShared, connect: connect)
        self.anchors = anchors
        self.allowsShortPINs = allowsShortPINs
    }

    public func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        let (identity, isOwnerOpen) = try await visit("look at the TPM") { (tpm) throws(TPMError) in
            (try TPMIdentity(tpm), try !tpm.isOwnerPasswordSet())
        }
        return KeystoreCapabilities(
            device: identity.description, root: identity.isSimulated ? .swtpm : .tpm,
            requirements: Set(AccessPolicy.Requirement.allCases), canAttest: true, sealsRevocably: isOwnerOpen)
    }

    public func pinStatus() async throws(KeystoreError) -> PINStatus {
        try await lockoutState("read the TPM's PIN counter").status
    }

    /// Forgets the tickets. The TPM would take them to the end of their time, but nobody has them any more.
    public func endReuse() { tickets.empty() }

    /// Removes what authorizes a key that can be taken back. Of any other a TPM holds nothing while it is not loaded:
    /// forgetting the returned value deletes it.
    public func delete(_ key: HardwareKey) async throws(KeystoreError) {
        if let authorization = key.authorization { try await revoke(authorization) }
    }

    /// One connection's worth of work.
    func visit<R: Sendable>(
        _ operation: String, _ body: @Sendable (TPM) throws(TPMError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await device.visit(body)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }

    func lockoutState(_ operation: String) async throws(KeystoreError) -> LockoutState {
        try await visit(operation) { (tpm) throws(TPMError) in try LockoutState(tpm) }
    }
}
