/// An entity's Name: what authorizations are bound to (TPM 2.0 Part 1 section 16).
///
/// Objects and NV indices have `nameAlg ‖ H(public area)`; everything else has its 4-byte handle.
public struct TPMName: Hashable, Sendable {
    /// The most bytes that a Name has: an algorithm and a SHA-512 digest.
    public static let maximumBytes = 66

    /// The hash's two bytes and its digest; or the four of a handle.
    public let bytes: [UInt8]

    /// A Name that the TPM gave.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// The Name of what has no public area: its handle.
    public init(of handle: TPMHandle) { bytes = handle.marshalled }
}
