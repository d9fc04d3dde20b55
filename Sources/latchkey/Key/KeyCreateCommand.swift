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
            once its PIN is changed none does with the old one; somebody who has had both PIN and TPM may have taken \
            along what it takes. Where the hardware can't do that, the key is made \
            without, and says so.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: "What the hardware asks for before it uses the key.")
    var policy = PolicyArgument(.pin)

    @Option(help: "A name for you; it need not be unique.")
    var label: String?

    @Option(help: ArgumentHelp("On a PIV card: the slot for the key, such as 9a.", valueName: "slot"))
    var slot: PIVSlotArgument?

    @Flag(help: "Make it so that the TPM can take it back from every copy of the store.")
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
            KeyRequest(policy: policy.policy, label: label, prompt: prompt), revocably: revocable,
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
        if revocable, !key.isRevocable {
            context.console.warn(
                "The key is not revocable: ‘latchkey doctor’ says why this hardware can't take it back.")
        }
        return KeyReport(key)
    }
}
