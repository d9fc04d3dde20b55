import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey key create`.
struct KeyCreateCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Make a P-256 key inside the hardware.",
        discussion: """
            With a --token that also names a key (id= or object=), that key is taken over instead of making one. On a \
            token a key with a PIN has the token's own: the present one is asked for, after the management key where \
            the token wants it for making keys (YubiKey).
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: "What the hardware asks for before it uses the key.")
    var policy = PolicyArgument(.pin)

    @Option(help: "A name for you; it need not be unique.")
    var label: String?

    @Option(help: ArgumentHelp("On a PIV card: the slot for the key, such as 9a.", valueName: "slot"))
    var slot: PIVSlotArgument?

    func validate() throws {
        guard label?.utf8.count ?? 0 <= 256 else { throw ValidationError("The label has more than 256 bytes.") }
    }

    func perform(in context: CommandContext) async throws -> KeyReport {
        let records = try await context.records(slot: slot?.slot)
        let prompt = context.prompt("protect the new key\(label.map { " ‘\($0)’" } ?? "")")
        let key = try await records.keystore.createKey(
            KeyRequest(policy: policy.policy, label: label, prompt: prompt), authorizedBy: context.presence)
        let record = Record(id: RecordID(key.id), kind: .key, protection: .selfAuthenticated, key: key)
        do {
            try await records.apply([.put(record, payload: nil, ifGeneration: 0)], for: prompt)
        } catch {
            // A key that nobody has a name for is of no use to anybody.
            try? await records.keystore.delete(key)
            throw error
        }
        return KeyReport(key)
    }
}
