internal import Crypto
internal import FoundationEssentials
package import Latchkey

/// The authenticator data of WebAuthn (WebAuthn Level 3 section 6.1).
struct AuthenticatorData: Sendable {
    /// The flags. BE and BS are never set: the passkey cannot be copied.
    struct Flags: OptionSet, Sendable {
        let rawValue: UInt8

        static let userPresent = Flags(rawValue: 0x01)
        static let userVerified = Flags(rawValue: 0x04)
        static let attestedData = Flags(rawValue: 0x40)
        static let extensionData = Flags(rawValue: 0x80)
        /// The flags of every answer for which the hardware verified the user.
        static let verified: Flags = [.userPresent, .userVerified]
    }

    /// A new credential.
    struct Attested: Sendable {
        let aaguid: AAGUID
        let id: Data
        let publicKey: PublicKey
    }

    let rpID: String
    let flags: Flags
    var attested: Attested?
    var extensions: [CBORKey: CBORValue] = [:]

    /// The bytes. The counter is 0: a key that cannot be copied needs none.
    var bytes: [UInt8] {
        var flags = flags
        if attested != nil { flags.insert(.attestedData) }
        if !extensions.isEmpty { flags.insert(.extensionData) }
        var bytes = Array(SHA256.hash(data: Array(rpID.utf8))) + [flags.rawValue, 0, 0, 0, 0]
        if let attested {
            bytes += attested.aaguid.bytes
            bytes += [UInt8(attested.id.count >> 8), UInt8(attested.id.count & 0xFF)] + attested.id
            bytes += attested.publicKey.coseKey.encoded
        }
        if !extensions.isEmpty { bytes += CBORValue.map(extensions).encoded }
        return bytes
    }
}

extension PublicKey {
    /// The key as a COSE key for ES256 (RFC 9053 section 7.1).
    var coseKey: CBORValue {
        let point = Array(x963Representation)
        return .map([
            1: .integer(2), 3: .integer(-7), -1: .integer(1), -2: .bytes(Array(point[1..<33])),
            -3: .bytes(Array(point[33..<65])),
        ])
    }
}

extension ECDSASignature {
    /// The signature in DER, as WebAuthn transmits it.
    var derBytes: [UInt8] {
        get throws(CTAPStatus) {
            guard
                let signature = try? P256.Signing.ECDSASignature(
                    rawRepresentation: rawRepresentation)
            else {
                throw .other
            }
            return Array(signature.derRepresentation)
        }
    }
}

/// A key in memory that signs answers which prove nothing: probes and dummy registrations. No
/// client verifies them with a stored key.
struct TemporaryKey {
    private let key = P256.Signing.PrivateKey()

    var publicKey: PublicKey {
        get throws(CTAPStatus) {
            guard let key = try? PublicKey(x963Representation: key.publicKey.x963Representation)
            else { throw .other }
            return key
        }
    }

    func sign(_ bytes: [UInt8]) throws(CTAPStatus) -> [UInt8] {
        guard let signature = try? key.signature(for: bytes) else { throw .other }
        return Array(signature.derRepresentation)
    }
}

/// The model of an authenticator, 16 bytes, fixed for the product.
package struct AAGUID: Hashable, Sendable {
    package let bytes: [UInt8]

    /// Latchkey with a TPM or a token: 944a1409-db9b-4218-8f65-95e1fb9180d2.
    package static let hardware = AAGUID(bytes: [
        0x94, 0x4a, 0x14, 0x09, 0xdb, 0x9b, 0x42, 0x18, 0x8f, 0x65, 0x95, 0xe1, 0xfb, 0x91, 0x80,
        0xd2,
    ])
    /// Latchkey with a software TPM or token: ce972c74-1426-459e-8bc1-cbc7e3dcbfca.
    package static let software = AAGUID(bytes: [
        0xce, 0x97, 0x2c, 0x74, 0x14, 0x26, 0x45, 0x9e, 0x8b, 0xc1, 0xcb, 0xc7, 0xe3, 0xdc, 0xbf,
        0xca,
    ])
}

extension AAGUID {
    /// The model for the hardware that contains the keys.
    package init(of root: AssuranceLevel.Root) {
        self = AssuranceLevel(root: root, presence: .none).isHardware ? .hardware : .software
    }
}
