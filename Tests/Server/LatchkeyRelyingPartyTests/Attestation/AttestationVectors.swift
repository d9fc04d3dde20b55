import Foundation
import Testing

/// The structures that swtpm 0.7.1 and a virtual YubiKey made, and values that an independent
/// program computed.
enum AttestationVectors {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .appending(path: "Fixtures")

    /// The bytes under this name.
    static func bytes(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) throws
        -> Data
    {
        let hex = try #require(all[name], "\(name)", sourceLocation: sourceLocation)
        return try #require(Data(hex: hex), sourceLocation: sourceLocation)
    }

    /// A time at which all certificates of the vectors are valid: 2026-11-23.
    static let time = Date(timeIntervalSince1970: 1_795_392_000)

    private static let all: [String: String] = {
        guard let json = try? Data(contentsOf: folder.appending(path: "vectors.json")) else {
            return [:]
        }
        return (try? JSONDecoder().decode([String: String].self, from: json)) ?? [:]
    }()
}

extension Data {
    /// Reads hexadecimal digits.
    init?(hex: String) {
        guard hex.utf8.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        var rest = hex.utf8[...]
        while !rest.isEmpty {
            guard let byte = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        self.init(bytes)
    }
}
