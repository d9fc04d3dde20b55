import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey key create` on a token in files, killed at each of its kill points.
@Suite(.timeLimit(.minutes(15)))
struct KeyKillTests {
    @Test(.requires(program: "softhsm2-util"))
    func `the store and the token agree, and the next key is created`() async throws {
        try await KillPoints.test(.keyOnToken) { _ in
            try await Machine.withToken()
        } change: { state, environment in
            try await isCreated(on: state.0, ["123456"], environment)
        } check: { state, life in
            try await check(state.0, ["123456"], life)
        }
    }

    private let create = ["key", "create", "--policy", "pin", "--json"]

    private func isCreated(
        on machine: Machine, _ pins: [String], _ environment: [String: String]
    ) async throws -> Bool {
        let outcome = try await machine.run(create, pins: pins, extra: environment)
        try #require([nil, 0].contains(outcome.status), "\(outcome)")
        return outcome.status == 0
    }

    /// The keys in the store sign; each other key on the token is listed, with a URI by which it is
    /// adopted or the reason why it cannot be; and another key is created.
    private func check(_ machine: Machine, _ pins: [String], _ life: KillPoints.Run) async throws {
        let stored = try await ids(machine)
        #expect(stored.count == 1 || stored.isEmpty && life.killedBefore != nil, "\(life)")
        let listed = try await keys(machine)
        #expect(listed.count <= 1, "\(life): \(listed)")
        #expect(listed.count == 1 || stored.isEmpty, "\(life)")
        for id in stored { try await sign(machine, id, pins, life) }
        if stored.isEmpty, let left = listed.first {
            guard let uri = left["uri"]?.string else {
                #expect(left["problem"]?.string?.isEmpty == false, "\(life): \(left)")
                return try await createAnother(machine, pins, life)
            }
            let adopted = try await machine.run(
                create, pins: pins, extra: ["LATCHKEY_TOKEN": uri])
            if adopted.status == 0 {
                for id in try await ids(machine) { try await sign(machine, id, pins, life) }
            } else {
                // The token has the public half alone: the error says so.
                #expect(try adopted.json()["error"]?["code"] == "notFound", "\(life): \(adopted)")
            }
        }
        try await createAnother(machine, pins, life)
    }

    private func createAnother(
        _ machine: Machine, _ pins: [String], _ life: KillPoints.Run
    ) async throws {
        let created = try await machine.run(create, pins: pins)
        try #require(created.status == 0, "\(life): \(created)")
        try await sign(machine, try #require(created.json()["id"]?.string), pins, life)
    }

    private func sign(
        _ machine: Machine, _ id: String, _ pins: [String], _ life: KillPoints.Run
    ) async throws {
        let signed = try await machine.run(
            "key", "sign", id, "/dev/null", pins: pins)
        #expect(signed.status == 0, "\(life): \(signed)")
    }

    private func ids(_ machine: Machine) async throws -> [String] {
        let listed = try await machine.require("key", "list", "--json").json()["keys"]?.array
        return try #require(listed).compactMap { $0["id"]?.string }
    }

    private func keys(_ machine: Machine) async throws -> [JSON] {
        try #require(
            await machine.require("token", "keys", "--json").json()["keys"]?.array)
    }
}
