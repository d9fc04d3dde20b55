import FoundationEssentials
import Latchkey
import LatchkeySSH
import LatchkeyServices

extension Diagnostics {
    /// Checks that ssh can reach the agent; nil if the container has no SSH keys.
    func sshAgent(_ store: RecordStore?) async -> Check? {
        let name = "ssh-agent"
        guard let store else { return nil }
        do throws(KeystoreError) {
            let records = try RecordContainer(
                name: context.settings.container, store: store, keystore: context.keystore(store))
            let (keys, damaged) = try await records.sshKeys()
            if let error = damaged.first { return .warning(name, "\(error)", error.recovery) }
            guard !keys.isEmpty else { return nil }
            let socket = AgentSocket(environment: ProcessInfo.processInfo.environment)
            let count = keys.count == 1 ? "one SSH key" : "\(keys.count) SSH keys"
            guard socket.isServed else {
                return .warning(
                    name,
                    "There is \(count), and no agent at \(socket.path).",
                    "Run ‘systemctl --user enable --now latchkey-agent.socket’; see ‘latchkey ssh install’."
                )
            }
            return .ok(name, "latchkey-agent serves \(count) at \(socket.path).")
        } catch {
            return .warning(name, "\(error)", error.recovery)
        }
    }
}
