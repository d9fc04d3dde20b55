/// What `ReadClock` returns, `TPMS_TIME_INFO` (TPM 2.0 Part 2 section 10.11.6).
public struct TimeInfo: Hashable, Sendable {
    /// Milliseconds since the TPM was last powered on.
    public let time: UInt64
    /// The clock that outlives resets.
    public let clockInfo: ClockInfo
}

extension TimeInfo: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        time = try reader.read()
        clockInfo = try reader.read()
    }
}
