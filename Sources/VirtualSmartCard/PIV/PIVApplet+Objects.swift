extension PIVApplet {
    /// The largest content of an object on a YubiKey, in bytes.
    private static let largestObject = 3052
    private static let discoveryObject: [UInt8] = [0x7E]
    /// Which application this is, and that the PIN of the application is the one to use (SP 800-73-4 Part 1 section
    /// 3.3.2).
    private static let discovery = TLV(
        0x7E,
        [
            TLV(0x4F, [0xA0, 0x00, 0x00, 0x03, 0x08, 0x00, 0x00, 0x10, 0x00, 0x01, 0x00]),
            TLV(0x5F2F, [0x40, 0x00]),
        ].bytes
    ).bytes
    /// Printed information, fingerprints and the face: for whoever knows the PIN (SP 800-73-4 Part 1 table 2).
    private static let guardedObjects: Set<[UInt8]> = [[0x5F, 0xC1, 0x09], [0x5F, 0xC1, 0x03], [0x5F, 0xC1, 0x08]]

    /// GET DATA (SP 800-73-4 Part 2 section 3.1.2).
    mutating func getData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard (p1, p2) == (0x3F, 0xFF) else { throw .incorrectParameters }
        guard let tag = try TLV.parse(data)[tag: 0x5C] else { throw .incorrectData }
        if tag == Self.discoveryObject { return .data(Self.discovery) }
        guard session.isPINVerified || !Self.guardedObjects.contains(tag) else { throw .securityStatusNotSatisfied }
        guard let content = objects[tag] else { throw .notFound }
        return .data(TLV(0x53, content).bytes)
    }

    /// PUT DATA (SP 800-73-4 Part 2 section 3.3.1). An empty object is a deleted one.
    mutating func putData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard (p1, p2) == (0x3F, 0xFF) else { throw .incorrectParameters }
        let fields = try TLV.parse(data)
        guard let tag = fields[tag: 0x5C], tag.count == 3, tag[0] == 0x5F, let content = fields[tag: 0x53] else {
            throw .incorrectData
        }
        guard content.count <= Self.largestObject else { throw .noSpace }
        objects[tag] = content.isEmpty ? nil : content
        return .done
    }
}
