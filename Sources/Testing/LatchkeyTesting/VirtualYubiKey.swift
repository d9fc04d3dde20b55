public import Crypto
internal import FoundationEssentials
internal import Latchkey
package import LatchkeySimulators
internal import SwiftASN1
internal import Synchronization
internal import Testing
public import VirtualSmartCard
internal import X509

/// A virtual YubiKey in a private pcscd. ykcs11, OpenSC and yubico-piv-tool recognize it as a
/// YubiKey.
public final class VirtualYubiKey: Sendable {
    /// The card reader.
    package let reader: SmartCardReader
    /// The card in the first slot.
    public let card: VirtualCard
    /// The certificate authority of the attestations of all cards.
    package let authority: AttestationAuthority
    private let touchTimeout: Duration?
    /// pcscd's count of changes after the insertion into the first slot.
    private let insertion = Mutex<UInt32>(0)
    private let teardowns = Mutex<[@Sendable () async -> Void]>([])

    private init(_ profile: CardProfile, touchTimeout: Duration?, reader: SmartCardReader) throws {
        self.reader = reader
        self.touchTimeout = touchTimeout
        authority = try AttestationAuthority()
        card = VirtualCard(
            profile.makeApplet(authority: authority), port: reader.ports[0],
            touchTimeout: touchTimeout)
    }

    /// Starts a reader with a card in the first slot, and runs `body` when pcscd has noticed the
    /// card.
    public static func withInserted<R>(
        _ profile: CardProfile = CardProfile(), touchTimeout: Duration? = nil,
        _ body: (VirtualYubiKey) async throws -> R
    ) async throws -> R {
        try await SmartCardReader.withRunning { reader in
            let yubiKey = try VirtualYubiKey(profile, touchTimeout: touchTimeout, reader: reader)
            try await yubiKey.wait(slot: 0, hasCard: true)
            return try await withTeardown({ await yubiKey.tearDown() }) { try await body(yubiKey) }
        }
    }

    /// Adds work for the end of ``withInserted(_:touchTimeout:_:)``, while pcscd still runs.
    package func atEnd(_ teardown: @escaping @Sendable () async -> Void) {
        teardowns.withLock { $0.append(teardown) }
    }

    private func tearDown() async {
        for teardown in teardowns.withLock(\.self) { await teardown() }
    }

    /// Inserts another card into an empty slot and waits until pcscd has noticed it.
    ///
    /// The card stays in the slot until it is ejected or the last reference is released.
    package func insert(_ profile: CardProfile, slot: Int = 1) async throws -> VirtualCard {
        let card = VirtualCard(
            profile.makeApplet(authority: authority), port: reader.ports[slot],
            touchTimeout: touchTimeout)
        try await wait(slot: slot, hasCard: true)
        return card
    }

    /// Removes the card from the first slot and waits until pcscd has noticed it.
    ///
    /// `VirtualCard.eject()` does not wait: in the 0.4 seconds until pcscd notices, modules behave
    /// differently.
    public func eject() async throws {
        card.eject()
        guard await reader.waitForRemoval(slot: 0, since: insertion.withLock { $0 }) else {
            throw Self.failure("pcscd did not notice the removal of the card")
        }
    }

    /// Inserts the card into the first slot again and waits until pcscd has noticed it.
    public func insert() async throws {
        card.insert()
        try await wait(slot: 0, hasCard: true)
    }

    /// Waits until a key of the card in the first slot waits for a touch.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` after five minutes.
    public func waitUntilTouchIsWanted() async throws {
        guard await poll(until: { card.isWaitingForTouch }) else {
            throw Self.failure("no key waits for a touch")
        }
    }

    private func wait(slot: Int, hasCard: Bool) async throws {
        guard await reader.waitUntil(slot: slot, hasCard: hasCard) else {
            throw Self.failure("pcscd did not notice the card")
        }
        if slot == 0, let changes = await reader.changes(slot: 0) {
            insertion.withLock { $0 = changes }
        }
    }

    private static func failure(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "use the virtual YubiKey", code: .unavailable, reason: reason,
            recovery: "Check that pcscd runs.")
    }
}

extension VirtualYubiKey {
    /// Generates a P-256 key in a slot of the card with yubico-piv-tool, and imports a certificate
    /// for it, which OpenSC requires. The card must have the factory management key.
    ///
    /// A temporary key signs the certificate, because yubico-piv-tool 2.2.0 cannot create a
    /// self-signed one.
    ///
    /// - Parameters:
    ///   - name: The certificate's common name. OpenSC uses the name of slot 9a as the token label.
    ///   - pinPolicy: nil for the slot's default: always in 9c, never in 9e, once in the others.
    /// - Returns: The public key.
    @discardableResult
    public func provision(
        _ slot: KeySlot, name: String = "Latchkey", pinPolicy: PINPolicy? = nil,
        touchPolicy: TouchPolicy = .never,
        slotOfReader: Int = 0
    ) async throws -> P256.Signing.PublicKey {
        try await provision(
            slot, name: name, pinPolicy: pinPolicy, touchPolicy: touchPolicy,
            slotOfReader: slotOfReader,
            agreesOnKeys: true)
    }

    /// Generates a key as ``provision(_:name:pinPolicy:touchPolicy:slotOfReader:)`` does.
    ///
    /// - Parameter agreesOnKeys: Whether the certificate permits key agreement.
    @discardableResult
    package func provision(
        _ slot: KeySlot, name: String, pinPolicy: PINPolicy? = nil,
        touchPolicy: TouchPolicy = .never,
        slotOfReader: Int = 0, agreesOnKeys: Bool
    ) async throws -> P256.Signing.PublicKey {
        try await TemporaryDirectory.withDirectory { directory in
            let reader = [
                "-r", SmartCardReader.name(ofSlot: slotOfReader), "-s",
                String(slot.rawValue, radix: 16),
            ]
            let (publicPath, certificatePath) = (
                directory.path(of: "public.pem"), directory.path(of: "certificate.pem")
            )
            var policies = ["--touch-policy=\(touchPolicy)"]
            if let pinPolicy { policies.append("--pin-policy=\(pinPolicy)") }
            try await Self.runTool(
                reader + ["-a", "generate", "-A", "ECCP256", "-o", publicPath] + policies)
            let publicKey = try P256.Signing.PublicKey(
                pemRepresentation: String(contentsOfFile: publicPath, encoding: .utf8))
            try Data(Self.certificate(for: publicKey, name: name, agreesOnKeys).utf8).write(
                to: URL(filePath: certificatePath))
            try await Self.runTool(reader + ["-a", "import-certificate", "-i", certificatePath])
            return publicKey
        }
    }

    /// The factory management key, as the security officer's PIN of ykcs11 and as `-k` of
    /// yubico-piv-tool.
    public static let factoryManagementKey = "010203040506070801020304050607080102030405060708"

    private static func runTool(_ arguments: [String]) async throws(KeystoreError) {
        let result = try await HelperProgram.run("yubico-piv-tool", arguments)
        guard result.isSuccess else { throw failure("yubico-piv-tool failed: \(result.text)") }
    }

    private static func certificate(
        for key: P256.Signing.PublicKey, name: String, _ agreesOnKeys: Bool
    ) throws -> String {
        let now = Date()
        let certificate = try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(key),
            notValidBefore: now.addingTimeInterval(-60),
            notValidAfter: now.addingTimeInterval(365 * 86_400),
            issuer: DistinguishedName { CommonName("Latchkey test issuer") },
            subject: DistinguishedName { CommonName(name) },
            signatureAlgorithm: .ecdsaWithSHA256,
            // OpenSC derives the key's purpose from the key usage; without it, 9e would only sign.
            extensions: Certificate.Extensions {
                KeyUsage(digitalSignature: true, keyAgreement: agreesOnKeys)
            },
            issuerPrivateKey: Certificate.PrivateKey(P256.Signing.PrivateKey()))
        return try certificate.serializeAsPEM().pemString
    }
}
