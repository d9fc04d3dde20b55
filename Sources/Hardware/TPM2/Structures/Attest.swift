/// A statement that a TPM signs, `TPMS_ATTEST` (TPM 2.0 Part 2 section 10.12.12).
package struct Attest: Hashable, Sendable {
    /// `TPM_GENERATED_VALUE`. A restricted key does not sign external data that begins with it.
    package static let magic: UInt32 = 0xff54_4347

    /// The content of the statement.
    package enum Statement: Hashable, Sendable {
        /// `TPM_ST_ATTEST_CREATION`: this TPM created the object with this Name.
        case creation(objectName: TPMName, creationHash: [UInt8])
        /// `TPM_ST_ATTEST_CERTIFY`: the object with this Name is in this TPM.
        case certify(objectName: TPMName, qualifiedName: TPMName)
        /// `TPM_ST_ATTEST_NV`: the content of an NV index from an offset.
        case nv(indexName: TPMName, offset: UInt16, contents: [UInt8])
        /// A statement of another type, not decoded.
        case other(type: UInt16, bytes: [UInt8])
    }

    /// The verifier's challenge.
    package let extraData: [UInt8]
    /// The content of the statement.
    package let statement: Statement
}

/// A statement with its signature, as a TPM returns it.
package struct SignedAttest: Hashable, Sendable {
    /// The signed bytes.
    package let bytes: [UInt8]
    /// The content of ``bytes``.
    package let attest: Attest
    /// The signature.
    package let signature: TPMSignature
}

extension SignedAttest: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        bytes = try reader.readSized(maximum: 1024)
        attest = try Attest(unmarshalling: bytes)
        signature = try reader.read()
    }
}

extension Attest: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        guard try reader.read(UInt32.self) == Self.magic else {
            throw .malformed("an attestation does not begin with TPM_GENERATED_VALUE")
        }
        let type = try reader.read(UInt16.self)
        // The qualified Name of the signing key.
        _ = try reader.read(TPMName.self)
        extraData = try reader.readSized(maximum: 64)
        _ = try reader.read(ClockInfo.self)
        // The version of the firmware.
        _ = try reader.read(UInt64.self)
        statement =
            switch type {
            case 0x8014:
                .nv(
                    indexName: try reader.read(), offset: try reader.read(),
                    contents: try reader.readSized(maximum: 512))
            case 0x8017: .certify(objectName: try reader.read(), qualifiedName: try reader.read())
            case 0x801a:
                .creation(
                    objectName: try reader.read(), creationHash: try reader.readSized(maximum: 64))
            default: .other(type: type, bytes: reader.readRest())
            }
    }
}

/// The TPM's clock, `TPMS_CLOCK_INFO` (TPM 2.0 Part 2 section 10.11.1).
package struct ClockInfo: Hashable, Sendable {
    /// The number of milliseconds that the TPM was powered, over its lifetime.
    package let clock: UInt64
    /// The number of resets since the TPM was last cleared.
    package let resetCount: UInt32
    /// The number of restarts and resumes since the last reset.
    package let restartCount: UInt32
    /// Whether the TPM never reported a later value of ``clock``.
    package let isSafe: Bool
}

extension ClockInfo: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        clock = try reader.read()
        resetCount = try reader.read()
        restartCount = try reader.read()
        isSafe = try reader.readFlag()
    }
}

/// The result of `ReadClock`, `TPMS_TIME_INFO` (TPM 2.0 Part 2 section 10.11.6).
package struct TimeInfo: Hashable, Sendable {
    /// The number of milliseconds since the TPM was last powered on.
    package let time: UInt64
    /// The clock that continues across resets.
    package let clockInfo: ClockInfo
}

extension TimeInfo: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        time = try reader.read()
        clockInfo = try reader.read()
    }
}
