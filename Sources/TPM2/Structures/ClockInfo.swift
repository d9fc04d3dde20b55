/// The TPM's clock, `TPMS_CLOCK_INFO` (TPM 2.0 Part 2 section 10.11.1).
public struct ClockInfo: Hashable, Sendable {
    /// Milliseconds during which the TPM has been powered, over its life.
    public let clock: UInt64
    /// How often the TPM was reset since it was last cleared.
    public let resetCount: UInt32
    /// How often it came back or was suspended since its last reset.
    public let restartCount: UInt32
    /// Whether no later value of ``clock`` was ever reported.
    public let isSafe: Bool
}

extension ClockInfo: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        clock = try reader.read()
        resetCount = try reader.read()
        restartCount = try reader.read()
        isSafe = try reader.readFlag()
    }
}

extension TPMReader {
    /// A `TPMI_YES_NO`: 0 or 1.
    mutating func readFlag() throws(TPMError) -> Bool {
        switch try read(UInt8.self) {
        case 0: return false
        case 1: return true
        case let other: throw .malformed("a yes or no is \(other)")
        }
    }
}
