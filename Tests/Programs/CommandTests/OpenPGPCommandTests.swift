import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The tool with an OpenPGP card, through OpenSC's module, which shows a slot for each of the
/// card's PINs.
@Suite(
    .virtualYubiKey(.openPGP(serialNumber: 7)),
    .enabled(if: FileManager.default.fileExists(atPath: openSCModule), "needs opensc-pkcs11"),
    .timeLimit(.minutes(15)))
struct OpenPGPCommandTests {
    private static let keyIDs = [
        "OpenPGP card (User PIN (sig))": "%01", "OpenPGP card (User PIN)": "%03",
    ]

    @Test func `the listed URIs work with the commands, and wrong PINs show the attempts left`()
        async throws
    {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:?module-path=\(openSCModule)"
        let listed = try await machine.run("token", "list", "--json").json()["tokens"]?.array ?? []
        #expect(Set(listed.compactMap { $0["label"]?.string }) == Set(Self.keyIDs.keys))
        let ambiguous = try await machine.run("pin", "status")
        #expect(ambiguous.status == 10)
        for label in Self.keyIDs.keys {
            #expect(ambiguous.errors.contains("“\(label)”"), "\(ambiguous.errors)")
        }

        var ids: [String] = []
        for token in listed {
            let (uri, label) = (
                try #require(token["uri"]?.string), try #require(token["label"]?.string)
            )
            machine.environment["LATCHKEY_TOKEN"] = uri
            #expect(
                try await machine.run("doctor", "--json").json()["checks"]?.array?.isEmpty == false)
            #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 3)
            let naming = uri.replacing(
                "?", with: ";id=\(Self.keyIDs[label] ?? "")?", maxReplacements: 1)
            let made = try await machine.run(
                "key", "create", "--policy", "pin", "--token", naming, "--json",
                pins: [CardProfile.defaultPIN])
            #expect(made.status == 0, "\(made.errors)")
            let id = try #require(made.json()["id"]?.string)
            let signed = try await machine.run(
                "key", "sign", id, "/dev/null", pins: [CardProfile.defaultPIN])
            #expect(signed.status == 0, "\(signed.errors)")
            ids.append(id)
        }
        // The token is now the slot of the last key.
        let other = try await machine.run(
            "key", "sign", ids[0], "/dev/null", pins: [CardProfile.defaultPIN])
        #expect(other.status == 8 && other.errors.contains("the URI names"), "\(other.errors)")

        let changed = try await machine.run(
            "token", "pin", pins: [CardProfile.defaultPIN, "654321"])
        #expect(changed.status == 0, "\(changed.errors)")
        let wrong = try await machine.run("key", "sign", ids[1], "/dev/null", pins: ["111111"])
        #expect(
            wrong.status == 4 && wrong.errors.contains("the PIN is wrong; 2 attempts are left"),
            "\(wrong.errors)")
        let wrongOld = try await machine.run("token", "pin", "--json", pins: ["111111", "765432"])
        #expect(wrongOld.status == 4, "\(wrongOld.errors)")
        #expect(try wrongOld.json()["error"]?["attemptsLeft"] == 1)
        let status = try await machine.run("pin", "status")
        #expect(status.output.contains("Attempts left:   1"), "\(status.output)")
        #expect(
            try await machine.run("key", "sign", ids[1], "/dev/null", pins: ["111111"]).status == 5)
    }
}

private let openSCModule = "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"
