internal import FoundationEssentials
internal import Latchkey

/// A JSON Web Key as a client sends it (RFC 7517), before anybody trusts it.
struct JSONWebKey: Hashable, Sendable {
    let keyID: String?
    let algorithm: String?
    let use: String?
    let hasPrivateMembers: Bool
    /// The key, where it is of a kind that devices may have.
    let publicKey: DevicePublicKey?

    /// Members that only private and symmetric keys have (RFC 7518 sections 6.2.2, 6.3.2 and 6.4).
    private static let privateMembers: Set = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

    init(_ value: JSONValue) throws(BiometricRequestError) {
        guard let members = value.object, let type = members["kty"]?.string else {
            throw BiometricRequestError(.unparsable, "invalid JWK: it is not an object with a kty")
        }
        keyID = members["kid"]?.string
        algorithm = members["alg"]?.string
        use = members["use"]?.string
        hasPrivateMembers = !Self.privateMembers.isDisjoint(with: members.keys)
        switch type {
        case "EC":
            let x = try Self.bytes("x", of: members)
            let y = try Self.bytes("y", of: members)
            publicKey = members["crv"]?.string == "P-256" ? DevicePublicKey(x: x, y: y) : nil
        case "RSA":
            publicKey = DevicePublicKey(
                modulus: try Self.bytes("n", of: members), exponent: try Self.bytes("e", of: members))
        default:
            publicKey = nil
        }
    }

    private static func bytes(_ name: String, of members: [String: JSONValue]) throws(BiometricRequestError) -> Data {
        guard let text = members[name]?.string, let bytes = Base64URL.decode(text), !bytes.isEmpty else {
            throw BiometricRequestError(.unparsable, "invalid JWK: \(name) is not base64url")
        }
        return bytes
    }
}
