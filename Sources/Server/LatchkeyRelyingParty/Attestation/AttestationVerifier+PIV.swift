internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1

/// YubiKeys attest keys with a certificate by slot F9, whose certificate Yubico issued (Yubico,
/// "PIV attestation").
extension AttestationVerifier {
    private enum Identifier {
        static let commonName: ASN1ObjectIdentifier = [2, 5, 4, 3]
        static let firmware: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 3]
        static let serial: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 7]
        static let policies: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 8]
    }

    /// Verifies a YubiKey's chain. It contains no challenge: the signature of the request by the
    /// same key proves freshness.
    ///
    /// - Parameter certificates: The attestation, the certificate in slot F9, and intermediates,
    ///   DER.
    /// - Throws: ``AttestationError`` with code `malformed`, `wrongChain`, one of
    ///   `untrustedEndorsement`, `chainTooLong`, `unsupportedCertificate` and `certificateExpired`,
    ///   `wrongKey`, `wrongPolicy` or `wrongType`, in this order.
    func verify(_ certificates: [Data], of key: DevicePublicKey) throws(AttestationError)
        -> AttestationVerdict
    {
        var chain: [HardwareCertificate] = []
        for der in certificates {
            do {
                chain.append(try HardwareCertificate(der))
            } catch {
                throw AttestationError(.malformed, "a certificate cannot be read: \(error)")
            }
        }
        guard chain.count >= 2 else {
            throw AttestationError(.malformed, "the certificate of slot F9 is missing")
        }
        let (leaf, card) = (chain[0], chain[1])
        guard card.subject == leaf.issuer,
            CertificateKey(publicKeyInfo: card.publicKeyInfo)?.isIssuer(of: leaf) == true
        else {
            throw AttestationError(
                .wrongChain, "the certificate of slot F9 did not sign the attestation")
        }
        guard let constraints = try? card.basicConstraints(), constraints.isAuthority else {
            throw AttestationError(
                .wrongChain, "the certificate of slot F9 is not a CA certificate")
        }
        let path: CertificatePath
        do {
            path = try CertificatePath(
                from: card, to: anchors.piv, simulated: anchors.simulated,
                others: Array(chain.dropFirst(2)), at: now,
                depth: 1)
        } catch {
            throw AttestationError(error.reason, error.detail)
        }
        guard case .p256(let attested) = CertificateKey(publicKeyInfo: leaf.publicKeyInfo),
            let publicKey = try? PublicKey(x963Representation: attested.x963Representation),
            key == .es256(publicKey)
        else { throw AttestationError(.wrongKey, "the attested key is not the key of the request") }
        guard let policies = leaf.find(Identifier.policies)?.value, policies.count == 2,
            let pin = policies.first,
            let touch = policies.last
        else {
            throw AttestationError(
                .wrongPolicy, "the attestation does not state the PIN and touch policies")
        }
        guard Self.isAttestation(leaf) else {
            throw AttestationError(.wrongType, "the certificate is not an attestation of a PIV key")
        }
        let presence = Self.presence(pin: pin, touch: touch)
        let token = AttestationVerdict.Hardware.yubiKey(
            firmware: Self.firmware(of: leaf), serial: Self.serial(of: leaf))
        return AttestationVerdict(
            publicKey: publicKey, hardware: path.isSimulated ? .simulated(token) : token,
            presence: presence,
            provesPIN: [.pin, .touchAndPIN, .fingerOrPIN].contains(presence) ? .form : .none,
            reuseSeconds: 0,
            diesWithFingers: false, approvalKeys: [], certificateSerial: Data(card.serialNumber))
    }

    /// - Parameters:
    ///   - pin: 1 never, 2 once, 3 always; 4 and 5: a fingerprint or the PIN, once or always.
    ///   - touch: 1 never, 2 always, 3 cached for 15 s.
    static func presence(pin: UInt8, touch: UInt8) -> AssuranceLevel.EnforcedPresence {
        switch (pin, touch) {
        case (2...3, 2): .touchAndPIN
        case (_, 2): .touch
        case (2...3, _): .pin
        case (4...5, _): .fingerOrPIN
        default: .none
        }
    }

    /// Whether the subject is a single commonName that begins with "YubiKey PIV Attestation ".
    private static func isAttestation(_ certificate: HardwareCertificate) -> Bool {
        do {
            let sets = try HardwareCertificate.children(
                try DER.parse(certificate.subject), .sequence, 1...1)
            let attribute = try HardwareCertificate.children(sets[0], .set, 1...1)[0]
            let parts = try HardwareCertificate.children(attribute, .sequence, 2...2)
            guard try ASN1ObjectIdentifier(derEncoded: parts[0]) == Identifier.commonName else {
                return false
            }
            let text = try HardwareCertificate.content(parts[1], parts[1].identifier)
            return text.starts(with: "YubiKey PIV Attestation ".utf8)
        } catch {
            return false
        }
    }

    private static func firmware(of certificate: HardwareCertificate) -> String {
        guard let bytes = certificate.find(Identifier.firmware)?.value, bytes.count == 3 else {
            return "unknown"
        }
        return bytes.map { String($0) }.joined(separator: ".")
    }

    private static func serial(of certificate: HardwareCertificate) -> UInt64? {
        guard let value = certificate.find(Identifier.serial)?.value,
            let node = try? DER.parse(value)
        else {
            return nil
        }
        return try? UInt64(derEncoded: node)
    }
}
