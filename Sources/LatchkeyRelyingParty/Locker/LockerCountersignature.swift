internal import Latchkey

/// The device key's signature over an assertion that brings another key: that the device itself wants what it says. As it
/// came, and not verified.
///
/// Without it, who has a fresh session and no device could add a key of his own to an enrolment.
public struct LockerCountersignature: Sendable {
    /// What precedes the assertion's signing input in what is signed. A signing input has no colon, so no other signature
    /// of the device key can be taken for this one.
    public static let prefix = "vnd.latchkey.locker-countersignature:"

    private let signature: ECDSASignature

    /// Reads `r ‖ s`, 64 bytes in base64url.
    ///
    /// - Throws: ``LockerRequestError`` with code `malformed`.
    public init(_ text: String) throws(LockerRequestError) {
        guard let signature = Base64URL.decode(text).flatMap({ ECDSASignature(rawRepresentation: $0) }) else {
            throw LockerRequestError(.malformed, "the device's signature has not 64 bytes in base64url")
        }
        self.signature = signature
    }

    /// Whether the key made it for the assertion.
    func isValid(for request: LockerRequest, by key: PublicKey) -> Bool {
        key.isValid(signature, for: MessageDigest(sha256: (Self.prefix + request.signingInput).utf8))
    }
}
