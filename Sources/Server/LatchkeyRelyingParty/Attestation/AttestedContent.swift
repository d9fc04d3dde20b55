internal import FoundationEssentials
internal import TPM2

/// The content of a `TPMS_ATTEST` about a key or a counter.
struct AttestedContent: Sendable {
    enum Subject: Hashable, Sendable {
        case certify(TPMName)
        case creation(TPMName, hash: [UInt8])
        case nv(index: TPMName, offset: UInt16, [UInt8])
    }

    let extraData: [UInt8]
    let subject: Subject

    /// The Name of the key, or nil for a counter.
    var objectName: TPMName? {
        switch subject {
        case .certify(let name), .creation(let name, _): name
        case .nv: nil
        }
    }

    private static let certify: UInt16 = 0x8017
    private static let creation: UInt16 = 0x801a
    private static let nv: UInt16 = 0x8014

    /// Reads a statement about a key, or about a counter.
    ///
    /// - Throws: ``AttestationError`` with code `wrongMagic`, `wrongType` or `malformed`, in this
    ///   order.
    init(_ bytes: Data, isCounter: Bool = false) throws(AttestationError) {
        guard bytes.count >= 6 else {
            throw AttestationError(.malformed, "the statement has \(bytes.count) bytes")
        }
        guard bytes.prefix(4).elementsEqual(Attest.magic.marshalled) else {
            throw AttestationError(.wrongMagic, "the statement was not made by a TPM")
        }
        let type = bytes.dropFirst(4).prefix(2).reduce(UInt16(0)) { $0 << 8 | UInt16($1) }
        guard (isCounter ? [Self.nv] : [Self.certify, Self.creation]).contains(type) else {
            throw AttestationError(
                .wrongType, "the statement has the type 0x\(String(type, radix: 16))")
        }
        do throws(TPMError) {
            let attest = try Attest(unmarshalling: bytes)
            extraData = attest.extraData
            switch attest.statement {
            case .creation(let name, let hash): subject = .creation(name, hash: hash)
            case .certify(let name, _): subject = .certify(name)
            case .nv(let name, let offset, let contents):
                subject = .nv(index: name, offset: offset, contents)
            // Excluded by the check of the type.
            case .other: throw TPMError(.malformed, reason: "the type is unknown")
            }
        } catch {
            throw AttestationError(
                .malformed, "the statement is not a TPM structure: \(error.reason)")
        }
    }

    /// `outsideInfo` of a `TPMS_CREATION_DATA` (TPM 2.0 Part 2 section 15.1), or nil if the
    /// structure is malformed.
    static func outsideInfo(of creationData: Data) -> [UInt8]? {
        var reader = TPMReader(creationData)
        do throws(TPMError) {
            let selections = try reader.read(UInt32.self)
            guard selections <= 16 else { return nil }
            for _ in 0..<selections {
                _ = try reader.read(UInt16.self)
                _ = try reader.readBytes(Int(try reader.read(UInt8.self)))
            }
            _ = try reader.readSized(maximum: 64)
            // The locality and the parent's nameAlg.
            _ = try reader.readBytes(3)
            _ = try reader.read(TPMName.self)
            _ = try reader.read(TPMName.self)
            let outsideInfo = try reader.readSized(maximum: 64)
            try reader.finish()
            return outsideInfo
        } catch {
            return nil
        }
    }
}
