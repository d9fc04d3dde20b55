import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform

/// The process that connected to the agent. The kernel reports user and process ID. The process
/// chooses its name: it is a hint.
struct AgentClient: Hashable, Sendable {
    let user: UInt32
    let process: Int32
    private let claimedName: String?
    /// The arguments of its command line.
    let arguments: [String]

    private static let maximumArgumentBytes = 16 * 1024

    /// - Returns: nil if the kernel does not report the peer.
    init?(connection: Int32) {
        guard let peer = PeerCredentials(of: connection) else { return nil }
        (user, process) = (peer.user, peer.process)
        claimedName = FileManager.default.contents(atPath: "/proc/\(process)/comm").map {
            String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
        arguments =
            FileManager.default.contents(atPath: "/proc/\(process)/cmdline")?
            .prefix(Self.maximumArgumentBytes).split(separator: 0).dropFirst()
            .map { String(decoding: $0, as: UTF8.self) } ?? []
    }

    /// Whether the process may use the agent: all processes of the agent's user may, and no others,
    /// also not root's. Each signature then needs what the policy of its key requires.
    var mayUseAgent: Bool { user == geteuid() }

    /// For prompts: `“ssh” (process 4711)`.
    var description: String {
        guard let claimedName else { return "process \(process)" }
        return "\(String(quoted: claimedName, limit: 20)) (process \(process))"
    }
}
