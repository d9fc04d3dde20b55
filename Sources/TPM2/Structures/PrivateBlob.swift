/// The private part of an object, wrapped by its parent: the content of a `TPM2B_PRIVATE` (TPM 2.0 Part 2 section
/// 12.3.7). Nobody but that parent can read it.
public struct PrivateBlob: Hashable, Sendable {
    /// The most bytes that a wrapped private part has here.
    public static let maximumBytes = 1536

    /// As the TPM gave it. Nobody else can read it.
    public let bytes: [UInt8]

    /// - Returns: nil when there are no bytes, or more than ``maximumBytes``.
    public init?(bytes: [UInt8]) {
        guard (1...Self.maximumBytes).contains(bytes.count) else { return nil }
        self.bytes = bytes
    }
}

extension PrivateBlob: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        bytes = try reader.readSized(maximum: Self.maximumBytes)
        guard !bytes.isEmpty else { throw .malformed("a private part is empty") }
    }

    public func marshal(into writer: inout TPMWriter) { writer.writeSized(bytes) }
}
