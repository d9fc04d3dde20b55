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

            A key that is --revocable takes room in the TPM. Once it is deleted no copy of the store signs with it, and \
            once its PIN is changed none does with the old one. A person who had the PIN and used the TPM before may have \
            read the secret that authorizes the key. If the hardware cannot revoke keys, the command fails.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: "What the hardware asks for before it uses the key.")
    var policy = PolicyArgument(.pin)

    @Option(help: "A name for you; it need not be unique.")
    var label: String?

    @Option(help: ArgumentHelp("On a PIV card: the slot for the key, such as 9a.", valueName: "slot"))
    var slot: PIVSlotArgument?

    @Flag(help: "Make a key that the TPM can revoke for every copy of the store, or fail.")
    var revocable = false

    func validate() throws {
        guard let label else { return }
        guard (1...256).contains(label.utf8.count) else { throw ValidationError("A label has 1 to 256 bytes.") }
    }

    func perform(in context: CommandContext) async throws -> KeyReport {
        let records = try await context.records(slot: slot?.slot)
        let prompt = context.prompt("protect the new key\(label.map { " ‘\($0)’" } ?? "")")
        // What a crash left in the hardware is in the way of nothing but room.
        if revocable { try? await records.finishRevocations() }
        let made = try await records.createKey(
            KeyRequest(policy: policy.policy, label: label, prompt: prompt), revocably: revocable ? .required : .never,
            authorizedBy: context.presence)
        defer { withExtendedLifetime(made) {} }
        let key = made.key
        let record = Record(id: RecordID(key.id), kind: .key, protection: .selfAuthenticated, key: key)
        do {
            try await records.apply([.put(record, payload: nil, ifGeneration: 0)], for: prompt)
        } catch {
            // A key that nobody has a name for is of no use to anybody.
            try? await records.discard(key)
            throw error
        }
        return KeyReport(key)
    }
}
