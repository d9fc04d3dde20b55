import Testing

/// Arguments that may be PINs in the wrong place.
@Suite(.timeLimit(.minutes(15)))
struct ArgumentSecrecyTests {
    private static let pin = "482915"

    @Test(arguments: [
        ["key", "list", "--pin-source", pin], ["key", "list", "--pin-source=\(pin)"],
        ["config", "set", "pin-source", pin], ["key", "create", pin],
        ["key", "create", "--pin", pin],
        ["pin", pin], ["pin", "change", pin], ["pin", "change", pin, pin], ["pin", "status", pin],
        ["key", "list", "--presence", pin], [pin], ["key", "list", "--json", "--pin-source", pin],
    ])
    func `an argument that may be a PIN is not printed`(command: [String]) async throws {
        let outcome = try await Machine(tcti: nil).run(command)
        #expect(outcome.status != 0)
        #expect(!(outcome.output + outcome.errors).contains(Self.pin), "\(outcome)")
    }

    @Test func `a PIN in the variable of the PIN source is not printed`() async throws {
        let outcome = try await Machine(tcti: nil).run(
            "key", "list", extra: ["LATCHKEY_PIN_SOURCE": Self.pin])
        #expect(outcome.status == 2)
        #expect(!(outcome.output + outcome.errors).contains(Self.pin), "\(outcome)")
    }
}
