import FoundationEssentials
import Latchkey
import LatchkeySSH
import LatchkeyServices

/// Checks that ssh can reach latchkey-agent, and that the agent offers the stored keys.
struct AgentDiagnostics {
    private static let name = "ssh-agent"

    let context: CommandContext

    /// - Returns: nil if the container has no SSH keys.
    func check(_ store: RecordStore?) async -> Check? {
        guard let store else { return nil }
        do throws(KeystoreError) {
            let records = try RecordContainer(
                name: context.settings.container, store: store, keystore: context.keystore(store))
            let (keys, damaged) = try await records.sshKeys()
            if let error = damaged.first {
                return .warning(Self.name, "\(error)", advice: error.advice)
            }
            guard !keys.isEmpty else { return nil }
            return await check(keys)
        } catch {
            return .warning(Self.name, "\(error)", advice: error.advice)
        }
    }

    private func check(_ keys: [SSHKeyRecord]) async -> Check {
        let socket = AgentSocket(environment: ProcessInfo.processInfo.environment)
        let count = keys.count == 1 ? "one SSH key" : "\(keys.count) SSH keys"
        let there = keys.count == 1 ? "There is" : "There are"
        guard socket.isServed else {
            return .warning(
                Self.name, "\(there) \(count), and no agent at \(socket.path).",
                advice: "‘latchkey ssh install’ shows how to start it.")
        }
        do throws(SSHFormatError) {
            if let obstacle = try await AgentQuery.promptObstacle(of: socket.path) {
                return .warning(
                    Self.name,
                    "latchkey-agent serves \(count) at \(socket.path), but cannot prompt: \(obstacle.reason).",
                    advice: obstacle.advice)
            }
            let missing = try await missing(keys, at: socket)
            guard missing == 0 else {
                let which = keys.count == 1 ? "the SSH key" : "\(missing) of \(count)"
                return .warning(
                    Self.name,
                    "latchkey-agent at \(socket.path) does not offer \(which): it uses another store or container.",
                    advice:
                        "Start it again with the same store and container: \(socket.restart). It reads the environment at its "
                        + "start; ‘latchkey config set’ sets both for all programs.")
            }
        } catch {
            return .warning(
                Self.name, "\(there) \(count), but no latchkey-agent at \(socket.path): \(error).",
                advice: "‘latchkey ssh install’ shows how to start it.")
        }
        return .ok(Self.name, "latchkey-agent serves \(count) at \(socket.path).")
    }

    /// The number of keys that the agent should offer to a local program, and does not.
    private func missing(
        _ keys: [SSHKeyRecord], at socket: AgentSocket
    ) async throws(SSHFormatError) -> Int {
        let expected = keys.filter { key in
            (try? key.checkVerification()) != nil && key.settings.isOffered(to: SessionBindings())
        }
        let offered = try await AgentQuery.ownIdentities(of: socket.path).map(\.publicKey)
        return expected.count { !offered.contains($0.publicKey.blob) }
    }
}
