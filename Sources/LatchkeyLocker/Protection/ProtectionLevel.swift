/// Under which protection sensitive data is kept: in which statuses it can be read and written.
public enum ProtectionLevel: String, Hashable, Sendable, Codable, CaseIterable {
    /// On this device, while it is enrolled.
    case base
    /// While there is background access or an active session.
    case background
    /// While the person was recognised, without a network too.
    case offline
    /// While there is an active session.
    case active

    /// The byte that stands for it in a ciphertext.
    var byte: UInt8 {
        switch self {
        case .base: 0
        case .background: 1
        case .offline: 2
        case .active: 3
        }
    }

    init?(byte: UInt8) {
        guard let level = Self.allCases.first(where: { $0.byte == byte }) else { return nil }
        self = level
    }
}
