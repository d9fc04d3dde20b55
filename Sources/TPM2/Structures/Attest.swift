/// What a TPM says and signs, `TPMS_ATTEST` (TPM 2.0 Part 2 section 10.12.12).
public struct Attest: Hashable, Sendable {
    /// `TPM_GENERATED_VALUE`: no data from outside that a restricted key signs can begin with it.
    public static let magic: UInt32 = 0xff54_4347

    /// What is said.
    public enum Statement: Hashable, Sendable {
        /// `TPM_ST_ATTEST_CREATION`: this TPM made the object of that Name.
        case creation(objectName: TPMName, creationHash: [UInt8])
        /// Another kind, unread.
        case other(type: UInt16, bytes: [UInt8])
    }

    /// The qualified Name of the key that signs.
    public let qualifiedSigner: TPMName
    /// The verifier's challenge.
    public let extraData: [UInt8]
    /// The TPM's clock when it was said.
    public let clockInfo: ClockInfo
    /// The firmware that said it.
    public let firmwareVersion: UInt64
    /// What is said.
    public let statement: Statement
}

extension Attest: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        guard try reader.read(UInt32.self) == Self.magic else { throw .malformed("an attestation lacks its mark") }
        let type = try reader.read(UInt16.self)
        qualifiedSigner = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
        extraData = try reader.readSized(maximum: 64)
        clockInfo = try reader.read()
        firmwareVersion = try reader.read()
        if type == 0x801a {
            statement = .creation(
                objectName: TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes)),
                creationHash: try reader.readSized(maximum: 64))
        } else {
            statement = .other(type: type, bytes: reader.readRest())
        }
    }
}
