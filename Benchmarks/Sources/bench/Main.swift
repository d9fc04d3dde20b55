@main struct Main {
    static func main() async throws {
        let rounds = CommandLine.arguments.contains("--short") ? 300 : 3000
        for keys in [2, 250] {
            try await TokenSigning(keys: keys, rounds: rounds).run().show()
        }
    }
}
