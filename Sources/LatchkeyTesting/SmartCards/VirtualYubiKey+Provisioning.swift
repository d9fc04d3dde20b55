public import Crypto
internal import FoundationEssentials
internal import LatchkeySimulators
internal import SwiftASN1
internal import Testing
public import VirtualSmartCard
internal import X509

extension VirtualYubiKey {
    /// Makes a P-256 key in a slot of the card in the first reader slot, with yubico-piv-tool, and puts a certificate
    /// for it beside it, without which OpenSC does not see it. Needs the factory's management key.
    ///
    /// The certificate is issued by a key that is thrown away: yubico-piv-tool 2.2.0 can't have a key sign its own.
    ///
    /// - Parameters:
    ///   - name: The certificate's common name; OpenSC calls the token what slot 9a's is called.
    ///   - pinPolicy: nil for the slot's own: always in 9c, never in 9e, once in the others.
    /// - Returns: The public key.
    @discardableResult
    public func provision(
        _ slot: KeySlot, name: String = "Latchkey", pinPolicy: PINPolicy? = nil, touchPolicy: TouchPolicy = .never,
        slotOfReader: Int = 0
    ) async throws -> P256.Signing.PublicKey {
        try await TemporaryDirectory.withDirectory { directory in
            let tool = SystemProgram("yubico-piv-tool")
            let reader = ["-r", SmartCardReader.name(ofSlot: slotOfReader)]
            let place = ["-s", String(slot.rawValue, radix: 16)]
            let publicPath = directory.path(of: "public.pem")
            var policies = ["--touch-policy=\(touchPolicy)"]
            if let pinPolicy { policies.append("--pin-policy=\(pinPolicy)") }
            try await tool.require(
                reader + ["-a", "generate", "-A", "ECCP256", "-o", publicPath] + place + policies)
            let publicKey = try P256.Signing.PublicKey(
                pemRepresentation: String(contentsOfFile: publicPath, encoding: .utf8))
            let certificate = try Self.certificate(for: publicKey, name: name)
            try await tool.require(
                reader + ["-a", "import-certificate"] + place, input: Array(certificate.utf8))
            return publicKey
        }
    }

    /// The factory's management key, as a security officer's PIN for ykcs11 and `-k` of yubico-piv-tool.
    public static let factoryManagementKey = "010203040506070801020304050607080102030405060708"

    private static func certificate(for key: P256.Signing.PublicKey, name: String) throws -> String {
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
            extensions: Certificate.Extensions(),
            issuerPrivateKey: Certificate.PrivateKey(P256.Signing.PrivateKey()))
        return try certificate.serializeAsPEM().pemString
    }
}
