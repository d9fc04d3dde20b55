internal import FoundationEssentials
internal import Latchkey

/// The map of a request. Each accessor throws the status of a missing or wrong member.
struct CTAPParameters {
    private let members: [CBORKey: CBORValue]

    /// Decodes the bytes after the command.
    init(_ bytes: ArraySlice<UInt8>) throws(CTAPStatus) {
        guard let value = try? CBORReader.read(bytes, limits: .ctap) else { throw .invalidCBOR }
        guard let members = value.map else { throw .unexpectedType }
        self.members = members
    }

    init(_ members: [CBORKey: CBORValue]) {
        self.members = members
    }

    subscript(key: CBORKey) -> CBORValue? { members[key] }

    func required(_ key: CBORKey) throws(CTAPStatus) -> CBORValue {
        guard let value = members[key] else { throw .missingParameter }
        return value
    }

    func bytes(_ key: CBORKey, count: ClosedRange<Int>) throws(CTAPStatus) -> [UInt8] {
        guard let bytes = try required(key).bytes else { throw .unexpectedType }
        guard count.contains(bytes.count) else { throw .invalidLength }
        return bytes
    }

    /// An optional text of a site. It may have been cut within a character.
    func text(_ key: CBORKey) throws(CTAPStatus) -> String? {
        guard let value = members[key] else { return nil }
        guard let text = value.text else { throw .unexpectedType }
        return text.isEmpty ? nil : text
    }

    func map(_ key: CBORKey) throws(CTAPStatus) -> CTAPParameters {
        guard let map = try required(key).map else { throw .unexpectedType }
        return CTAPParameters(map)
    }

    func optionalMap(_ key: CBORKey) throws(CTAPStatus) -> CTAPParameters {
        members[key] == nil ? CTAPParameters([:]) : try map(key)
    }

    func flag(_ key: CBORKey) throws(CTAPStatus) -> Bool? {
        guard let value = members[key] else { return nil }
        guard let flag = value.boolean else { throw .unexpectedType }
        return flag
    }

    func integer(_ key: CBORKey) throws(CTAPStatus) -> Int? {
        guard let value = members[key] else { return nil }
        guard let integer = value.integer else { throw .unexpectedType }
        return integer
    }

    /// Whether `pinUvAuthParam` is empty: a client selects a device. Tokens are not supported.
    func isProbe(_ key: CBORKey) throws(CTAPStatus) -> Bool {
        guard let value = members[key] else { return false }
        guard let bytes = value.bytes else { throw .unexpectedType }
        guard bytes.isEmpty else { throw .pinAuthInvalid }
        return true
    }

    /// The IDs in a list of credentials, or nil without a list. Elements of other types are
    /// skipped.
    func credentialIDs(_ key: CBORKey) throws(CTAPStatus) -> [Data]? {
        guard let value = members[key] else { return nil }
        guard let elements = value.array else { throw .unexpectedType }
        var ids: [Data] = []
        for element in elements {
            guard let element = try Self.publicKeyElement(element) else { continue }
            guard let id = try element.required("id").bytes else { throw .unexpectedType }
            ids.append(Data(id))
        }
        return ids
    }

    /// An element of a list of credentials or algorithms; nil if it has another type than
    /// `public-key`.
    static func publicKeyElement(_ value: CBORValue) throws(CTAPStatus) -> CTAPParameters? {
        guard let members = value.map else { throw .unexpectedType }
        let element = CTAPParameters(members)
        guard let type = try element.required("type").text else { throw .unexpectedType }
        return type == "public-key" ? element : nil
    }

    /// The ID of a relying party: a domain in ASCII without spaces, as browsers send it, or the
    /// application of an SSH key, which is `ssh:` and any visible text.
    static func checkedRPID(_ value: CBORValue) throws(CTAPStatus) -> String {
        guard let id = value.text else { throw .unexpectedType }
        let isApplication = id.utf8.starts(with: "ssh:".utf8)
        guard (1...253).contains(id.utf8.count),
            id.unicodeScalars.allSatisfy({
                isApplication ? $0.isVisible && $0 != "\u{FFFD}" : ("!"..."~").contains($0)
            })
        else { throw .invalidParameter }
        return id
    }
}
