import FoundationEssentials
import Glibc
import Latchkey

/// The process that connected. The kernel reports user and process ID. The process chooses its
/// name: it is a hint.
struct Requester: Hashable, Sendable {
    let user: UInt32
    let process: Int32
    private let claimedName: String?

    /// - Returns: nil if the kernel does not report the peer (unix(7), `SO_PEERCRED`).
    init?(connection: Int32) {
        // `struct ucred`: process, user and group.
        var credentials: (process: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
        let expected = socklen_t(MemoryLayout.size(ofValue: credentials))
        var size = expected
        guard getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0,
            size == expected
        else {
            return nil
        }
        (user, process) = (credentials.user, credentials.process)
        claimedName = FileManager.default.contents(atPath: "/proc/\(credentials.process)/comm").map
        {
            String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
    }

    /// For prompts: `“ssh” (process 4711)`.
    var description: String {
        guard let claimedName else { return "process \(process)" }
        return "\(String(quoted: claimedName, limit: 20)) (process \(process))"
    }
}
