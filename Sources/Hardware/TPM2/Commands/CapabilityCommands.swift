/// `TPM2_ReadClock` (Part 3 section 29.1).
package struct ReadClock: TPMCommand {
    package typealias Response = TimeInfo
    package static let code = TPMCommandCode.readClock

    package init() {}
}

/// `TPM2_GetCapability` (section 30.2). An HMAC session that audits the command authenticates the
/// response.
package struct GetCapability<Element: TPMUnmarshallable>: TPMCommand {
    package static var code: TPMCommandCode { .getCapability }
    private let capability: Capability
    private let first: UInt32
    private let count: UInt32

    package init(_ capability: Capability, from first: UInt32 = 0, count: UInt32) {
        self.capability = capability
        self.first = first
        self.count = count
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(capability.rawValue, first, count)
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> CapabilityPart<Element>
    {
        let hasMore = try reader.readFlag()
        guard try reader.read(UInt32.self) == capability.rawValue else {
            throw .malformed("the response is about another capability")
        }
        return CapabilityPart(elements: try reader.readList(maximum: 1024), hasMore: hasMore)
    }
}

/// The values in one response to ``GetCapability``.
package struct CapabilityPart<Element: TPMUnmarshallable> {
    package let elements: [Element]
    /// Whether the TPM has values after these: it returns as many as it wants.
    package let hasMore: Bool
}

/// `TPM_CAP` (Part 2 section 6.12).
package enum Capability: UInt32, Sendable {
    case handles = 1
    case commands = 2
    case properties = 6
}

extension TPM {
    /// `TPM2_GetCapability` for properties.
    ///
    /// - Returns: Those of the `count` properties from `first` on that the TPM has.
    package func properties(
        from first: TPMProperty, count: UInt32
    ) throws(TPMError) -> [TPMProperty: UInt32] {
        let list: [TaggedProperty] = try values(
            .properties, first.rawValue..<first.rawValue + count, \.property.rawValue)
        return Dictionary(list.map { ($0.property, $0.value) }) { first, _ in first }
    }

    /// The values whose numbers are in a range, in ascending order.
    private func values<Element: TPMUnmarshallable>(
        _ capability: Capability, _ range: Range<UInt32>, auditedBy session: Session? = nil,
        limit: UInt32 = .max, _ number: (Element) -> UInt32
    ) throws(TPMError) -> [Element] {
        var (values, next) = ([Element](), range.lowerBound)
        while next < range.upperBound, values.count < limit {
            let part: CapabilityPart<Element> = try execute(
                GetCapability<Element>(
                    capability, from: next,
                    count: min(limit - UInt32(values.count), range.upperBound - next)),
                in: nil, session.map { [.continuing($0, protecting: .audit)] } ?? [])
            for value in part.elements where range.contains(number(value)) {
                values.append(value)
            }
            // A TPM that returns nothing new would be asked forever.
            guard part.hasMore, let last = part.elements.last.map(number), last >= next else {
                break
            }
            next = last &+ 1
        }
        return values
    }

    /// `TPM2_GetCapability` for handles: the handles in use from `first` on, of the same kind, in
    /// ascending order.
    ///
    /// - Parameter session: A salted HMAC session that audits the command, so that the response is
    ///   authenticated. Nil for an unauthenticated response.
    package func handles(
        from first: TPMHandle, count: UInt32 = 64, auditedBy session: Session? = nil
    ) throws(TPMError) -> [TPMHandle] {
        // The upper 8 bits of a handle are its kind. Loaded policy sessions (0x03) are among the
        // loaded sessions (0x02): Part 3 section 30.2.
        let kind = first.rawValue & 0xff00_0000
        return try values(
            .handles, first.rawValue..<(kind | 0x00ff_ffff) + 1, auditedBy: session, limit: count
        ) { kind | $0.rawValue & 0x00ff_ffff }
    }

    /// Whether the TPM has a command of the standard.
    package func hasCommand(_ command: TPMCommandCode) throws(TPMError) -> Bool {
        // The lower 16 bits of `TPMA_CC` (Part 2 section 8.9), in ascending order.
        let commands: CapabilityPart<UInt32> = try execute(
            GetCapability(.commands, from: command.rawValue, count: 1))
        return commands.elements.contains { $0 & 0xFFFF == command.rawValue & 0xFFFF }
    }
}

/// A property and its value, `TPMS_TAGGED_PROPERTY` (TPM 2.0 Part 2 section 10.8.2).
private struct TaggedProperty: TPMUnmarshallable {
    let property: TPMProperty
    let value: UInt32

    init(from reader: inout TPMReader) throws(TPMError) {
        property = try reader.read()
        value = try reader.read()
    }
}

/// A property that `GetCapability` reports, `TPM_PT` (TPM 2.0 Part 2 section 6.13).
package struct TPMProperty: TPMNumber, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The revision of the specification, times 100.
    package static let revision = TPMProperty(rawValue: 0x102)
    /// The vendor ID, four letters.
    package static let manufacturer = TPMProperty(rawValue: 0x105)
    /// The parts of the vendor's model name, four letters each.
    package static let vendorStrings = (0x106...0x109).map(TPMProperty.init(rawValue:))
    /// The upper half of the firmware version.
    package static let firmwareVersion1 = TPMProperty(rawValue: 0x10b)
    /// `TPMA_PERMANENT`: the hierarchies that have a password, and whether the TPM is locked out.
    package static let permanent = TPMProperty(rawValue: 0x200)
    /// The number of counted wrong authorizations.
    package static let lockoutCounter = TPMProperty(rawValue: 0x20e)
    /// The number of wrong authorizations that locks the TPM.
    package static let maxAuthFail = TPMProperty(rawValue: 0x20f)
    /// The number of seconds after which the TPM forgets one wrong authorization.
    package static let lockoutInterval = TPMProperty(rawValue: 0x210)
    /// The number of seconds after which lockoutAuth can be used again after a wrong one.
    package static let lockoutRecovery = TPMProperty(rawValue: 0x211)
}
