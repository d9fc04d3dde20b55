/// An entity's Name: what authorizations are bound to (TPM 2.0 Part 1 section 16).
///
/// Objects and NV indices have `nameAlg ‖ H(public area)`; everything else has its 4-byte handle.
public struct TPMName: Hashable, Sendable {
    /// The most bytes that a Name has: an algorithm and a SHA-512 digest.
    public static let maximumBytes = 66

    public let bytes: [UInt8]

    public init(bytes: [UInt8]) { self.bytes = bytes }

    public init(of handle: TPMHandle) { bytes = handle.marshalled }
}
