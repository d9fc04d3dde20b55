/// Clock and capability commands, TPM 2.0 Part 3 sections 29 and 30.
extension TPM {
    /// `TPM2_ReadClock` (section 29.1).
    package func readClock() throws(TPMError) -> TimeInfo {
        try execute(.readClock) { (reader, _) throws(TPMError) in try reader.read() }
    }

    /// `TPM2_GetCapability` for properties (section 30.2).
    ///
    /// - Returns: Those of the `count` properties from `first` on that the TPM has.
    public func properties(from first: TPMProperty, count: UInt32) throws(TPMError) -> [TPMProperty: UInt32] {
        let list = try capability(.properties, from: first.rawValue, count: count) { (reader) throws(TPMError) in
            (TPMProperty(rawValue: try reader.read()), try reader.read(UInt32.self))
        }
        return Dictionary(list.filter { $0.0.rawValue < first.rawValue &+ count }) { first, _ in first }
    }

    /// `TPM2_GetCapability` for handles: the handles in use from `first` on, of the same kind, in ascending order.
    ///
    /// - Parameter session: A salted HMAC session that audits the command, so that the response is authenticated. Nil for an
    ///   unauthenticated response.
    public func handles(
        from first: TPMHandle, count: UInt32 = 64, auditedBy session: Session? = nil
    ) throws(TPMError) -> [TPMHandle] {
        try capability(.handles, from: first.rawValue, count: count, auditedBy: session) {
            (reader) throws(TPMError) in try reader.read()
        }
    }

    /// `TPM2_GetCapability` for curves.
    package func curves() throws(TPMError) -> [ECCCurve] {
        try capability(.eccCurves, from: 0, count: 64) { (reader) throws(TPMError) in
            ECCCurve(rawValue: try reader.read())
        }
    }

    /// `TPM2_GetCapability` for algorithms, with the `TPMA_ALGORITHM` of each.
    package func algorithms() throws(TPMError) -> [TPMAlgorithm: UInt32] {
        let list = try capability(.algorithms, from: 0, count: 127) { (reader) throws(TPMError) in
            (try reader.read(TPMAlgorithm.self), try reader.read(UInt32.self))
        }
        return Dictionary(list) { first, _ in first }
    }

    /// `TPM2_GetCapability` for commands.
    package func commands() throws(TPMError) -> [TPMCommandCode] {
        try capability(.commands, from: 0, count: 256) { (reader) throws(TPMError) in
            // TPMA_CC (Part 2 section 8.9): the index is in the low half, bit 29 marks vendor commands.
            TPMCommandCode(rawValue: try reader.read(UInt32.self) & 0x2000_ffff)
        }
    }

    /// `TPM2_TestParms` (section 30.3): checks that the TPM supports the curve, schemes and cipher.
    ///
    /// - Throws: ``TPMError`` with a response code that names the unsupported parameter.
    package func testParms(_ parameters: ECCParameters) throws(TPMError) {
        var writer = TPMWriter()
        writer.write(TPMAlgorithm.ecc)
        writer.write(parameters)
        try executeWithoutResult(.testParms, parameters: writer)
    }

    /// `TPM_CAP` (Part 2 section 6.12).
    private enum Capability: UInt32 {
        case algorithms = 0
        case handles = 1
        case commands = 2
        case properties = 6
        case eccCurves = 8
    }

    private func capability<T>(
        _ capability: Capability, from property: UInt32, count: UInt32, auditedBy session: Session? = nil,
        _ element: (inout TPMReader) throws(TPMError) -> T
    ) throws(TPMError) -> [T] {
        var parameters = TPMWriter()
        parameters.write(capability.rawValue)
        parameters.write(property)
        parameters.write(count)
        return try execute(
            .getCapability, authorizedBy: session.map { [.continuing($0, protecting: .audit)] } ?? [],
            parameters: parameters
        ) { (reader, _) throws(TPMError) in
            // The flag moreData. The caller chose the count, so the rest is not needed.
            _ = try reader.readFlag()
            guard try reader.read(UInt32.self) == capability.rawValue else {
                throw .malformed("the response is about another capability")
            }
            return try reader.readList(maximum: 1024, element)
        }
    }
}

/// A property that `GetCapability` reports, `TPM_PT` (TPM 2.0 Part 2 section 6.13).
public struct TPMProperty: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The revision of the specification, times 100.
    package static let revision = TPMProperty(rawValue: 0x102)
    /// The vendor ID, four letters.
    package static let manufacturer = TPMProperty(rawValue: 0x105)
    /// Letters 1 to 4 of the vendor's model name.
    package static let vendorString1 = TPMProperty(rawValue: 0x106)
    /// Letters 5 to 8 of the vendor's model name.
    package static let vendorString2 = TPMProperty(rawValue: 0x107)
    /// Letters 9 to 12 of the vendor's model name.
    package static let vendorString3 = TPMProperty(rawValue: 0x108)
    /// Letters 13 to 16 of the vendor's model name.
    package static let vendorString4 = TPMProperty(rawValue: 0x109)
    /// The upper half of the firmware version.
    package static let firmwareVersion1 = TPMProperty(rawValue: 0x10b)
    /// The lower half of the firmware version.
    package static let firmwareVersion2 = TPMProperty(rawValue: 0x10c)
    /// `TPMA_PERMANENT`: the hierarchies that have a password, and whether the TPM is locked out.
    package static let permanent = TPMProperty(rawValue: 0x200)
    /// The number of counted wrong authorizations.
    public static let lockoutCounter = TPMProperty(rawValue: 0x20e)
    /// The number of wrong authorizations that locks the TPM.
    public static let maxAuthFail = TPMProperty(rawValue: 0x20f)
    /// The number of seconds after which the TPM forgets one wrong authorization.
    public static let lockoutInterval = TPMProperty(rawValue: 0x210)
    /// The number of seconds after which lockoutAuth can be used again after a wrong one.
    package static let lockoutRecovery = TPMProperty(rawValue: 0x211)
}
