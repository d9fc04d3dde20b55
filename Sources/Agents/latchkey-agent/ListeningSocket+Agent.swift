import Glibc
import Latchkey
import LatchkeyPlatform

extension ListeningSocket {
    /// Opens the agent's socket.
    ///
    /// - Parameter path: The path to create; nil for the socket that systemd passes.
    /// - Throws: ``KeystoreError`` with code `unavailable` if there is no socket, or it cannot be
    ///   created.
    static func forAgent(at path: String?) throws(KeystoreError) -> ListeningSocket {
        do throws(Refusal) {
            return if let path { try create(path) } else { try passed() }
        } catch {
            throw KeystoreError(
                operation: "open the agent's socket", code: .unavailable, reason: error.reason,
                recovery: error.recovery)
        }
    }

    private struct Refusal: Error {
        let reason: String
        var recovery = "Name another path with --socket."
    }

    private static func passed() throws(Refusal) -> ListeningSocket {
        guard let descriptor = passedDescriptor() else {
            throw Refusal(
                reason: "systemd passed no socket",
                recovery: "Start latchkey-agent.socket, or name a path with --socket.")
        }
        var (type, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr()
        var addressSize = socklen_t(MemoryLayout<sockaddr>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0,
            type == Int32(SOCK_STREAM.rawValue),
            getsockname(descriptor, &address, &addressSize) == 0,
            address.sa_family == sa_family_t(AF_UNIX)
        else {
            throw Refusal(
                reason: "the passed descriptor is not a UNIX socket",
                recovery: "Correct latchkey-agent.socket.")
        }
        return ListeningSocket(owning: descriptor)
    }

    /// Creates the socket in a directory that only this user and root may write.
    private static func create(_ path: String) throws(Refusal) -> ListeningSocket {
        let directory =
            path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        var status = stat()
        guard stat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw Refusal(reason: "the directory \(directory) does not exist")
        }
        guard [0, geteuid()].contains(status.st_uid), status.st_mode & 0o022 == 0 else {
            throw Refusal(reason: "other users can write the directory \(directory)")
        }
        guard let address = UNIXSocketAddress(path: path) else {
            throw Refusal(
                reason: "the path has more than \(UNIXSocketAddress.maximumPathBytes) bytes")
        }
        do throws(SystemError) {
            return try address.listeningSocket(queue: 128)
        } catch {
            guard error.number != EADDRINUSE || !address.isServed else {
                throw Refusal(reason: "another program serves \(path)")
            }
            throw Refusal(reason: "\(path) cannot be created: \(error)")
        }
    }
}
