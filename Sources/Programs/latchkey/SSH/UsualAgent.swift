import Latchkey
import LatchkeyPlatform
import LatchkeySSH

/// The agent in `SSH_AUTH_SOCK`, if that is another one than latchkey-agent.
struct UsualAgent {
    let path: String

    init?(environment: [String: String], besides socket: AgentSocket) {
        guard let path = environment["SSH_AUTH_SOCK"], path.hasPrefix("/"),
            !UNIXSocketAddress.isOneFile(socket.path, path)
        else { return nil }
        self.path = path
    }

    /// Keys that ssh does not find through latchkey-agent.
    struct HiddenKeys {
        let count: Int
        let path: String
        let isRunning: Bool

        var conflict: KeystoreError {
            KeystoreError(code: .conflict, reason: reason, recovery: "\(advice)")
        }

        var reason: String {
            let keys = count == 1 ? "one key" : "\(count) keys"
            let cause = isRunning ? "does not pass requests on to it" : "is not running"
            return
                "ssh would lose \(keys) of the agent \(printable(path)) (SSH_AUTH_SOCK): latchkey-agent \(cause)"
        }

        var advice: String {
            let start =
                isRunning
                ? "Set ‘agent-socket’ to this path in the configuration file, and restart latchkey-agent"
                : "Start latchkey-agent as ‘latchkey ssh install’ shows"
            return "\(start), or name the hosts of Latchkey's keys with --host."
        }
    }

    /// - Returns: nil if each key is listed by latchkey-agent too, or there are none.
    func hidden(by socket: AgentSocket) async -> HiddenKeys? {
        let own = await AgentQuery.identities(of: path) ?? []
        guard !own.isEmpty else { return nil }
        let listed = await AgentQuery.identities(of: socket.path)
        let known = Set((listed ?? []).map(\.publicKey))
        let count = own.filter { !known.contains($0.publicKey) }.count
        return count == 0 ? nil : HiddenKeys(count: count, path: path, isRunning: listed != nil)
    }
}
