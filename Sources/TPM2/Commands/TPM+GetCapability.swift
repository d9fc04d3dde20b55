extension TPM {
    /// `TPM2_GetCapability` for properties (Part 3 section 30.2).
    ///
    /// - Returns: Those of the `count` properties from `first` on that the TPM has.
    public func properties(from first: TPMProperty, count: UInt32) throws(TPMError) -> [TPMProperty: UInt32] {
        let list = try capability(.properties, from: first.rawValue, count: count) { (reader) throws(TPMError) in
            (TPMProperty(rawValue: try reader.read()), try reader.read(UInt32.self))
        }
        return Dictionary(list.filter { $0.0.rawValue < first.rawValue &+ count }) { first, _ in first }
    }

    /// `TPM2_GetCapability` for handles: those in use from `first` on, of the same kind, in ascending order.
    ///
    /// - Parameter session: A salted HMAC session that audits the command, so that the response carries the TPM's proof.
    ///   Nil for a response without proof.
    public func handles(
        from first: TPMHandle, count: UInt32 = 64, auditedBy session: Session? = nil
    ) throws(TPMError) -> [TPMHandle] {
        try capability(.handles, from: first.rawValue, count: count, auditedBy: session) {
            (reader) throws(TPMError) in try reader.read()
        }
    }

    /// `TPM2_GetCapability` for curves.
    public func curves() throws(TPMError) -> [ECCCurve] {
        try capability(.eccCurves, from: 0, count: 64) { (reader) throws(TPMError) in
            ECCCurve(rawValue: try reader.read())
        }
    }

    /// `TPM2_GetCapability` for algorithms: each with its `TPMA_ALGORITHM`.
    public func algorithms() throws(TPMError) -> [TPMAlgorithm: UInt32] {
        let list = try capability(.algorithms, from: 0, count: 127) { (reader) throws(TPMError) in
            (try reader.read(TPMAlgorithm.self), try reader.read(UInt32.self))
        }
        return Dictionary(list) { first, _ in first }
    }

    /// `TPM2_GetCapability` for commands.
    public func commands() throws(TPMError) -> [TPMCommandCode] {
        try capability(.commands, from: 0, count: 256) { (reader) throws(TPMError) in
            // TPMA_CC (Part 2 section 8.9): the low half is the index, bit 29 marks the vendor's own commands.
            TPMCommandCode(rawValue: try reader.read(UInt32.self) & 0x2000_ffff)
        }
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
            // Whether there is more than was asked for: the caller chose the count.
            _ = try reader.readFlag()
            guard try reader.read(UInt32.self) == capability.rawValue else {
                throw .malformed("another capability came back")
            }
            return try reader.readList(maximum: 1024, element)
        }
    }
}
