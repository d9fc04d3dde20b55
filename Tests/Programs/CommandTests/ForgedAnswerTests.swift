import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

/// `latchkey` with an attacker on the TPM's bus who forges error responses.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct ForgedAnswerTests {
    /// TPM_RC_HANDLE of the first handle, to all of a process's NV_ReadPublic.
    private func denyIndices(_ bus: FaultyTPM) {
        bus.arm(.code(0x18b, times: 1000), atCommand: TPMCommandCode.nvReadPublic.rawValue)
    }

    /// TPM_RC_NV_SPACE.
    private func denyRoom(_ bus: FaultyTPM) {
        bus.arm(.code(0x14b, times: 1000), atCommand: TPMCommandCode.nvDefineSpace.rawValue)
    }

    @Test
    func `key delete fails if the TPM denies the index, and the revocation is finished later`()
        async throws
    {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        let machine = try Machine(tcti: bus.tcti)
        let created = try await machine.run(
            "key", "create", "--revocable", "--json", pins: ["2580"]
        ).json()
        let id = try #require(created["id"]?.string)
        let copy = try machine.copy()
        denyIndices(bus)
        let denied = try await machine.run("key", "delete", id, "--yes", "--json")
        #expect(denied.status == 7, "\(denied.errors)")
        #expect(try denied.json()["error"]?["code"] == "unavailable")
        bus.arm()
        #expect(
            try await copy.run("key", "sign", id, "/dev/null", pins: ["2580"]).status == 0,
            "the control")
        let checks = try await machine.run("doctor", "--json").json()["checks"]?.array
        let check = try #require(checks?.first { $0["name"] == "revocation" })
        #expect(check["finding"]?.string?.contains("is pending") == true)
        #expect(try await machine.run("key", "create", "--revocable", pins: ["2580"]).status == 0)
        let dead = try await copy.run("key", "sign", id, "/dev/null", "--json", pins: ["2580"])
        #expect(try dead.json()["error"]?["code"] == "invalidated")
    }

    @Test func `vault reset reports a pending revocation if the TPM denies the index`() async throws
    {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        let machine = try Machine(tcti: bus.tcti)
        let stored = try await machine.run(
            "vault", "store", "app", "--biometrics", "--json", pins: ["2580"], input: "s3cret")
        #expect(try stored.json()["isRevocable"] == true)
        denyIndices(bus)
        let reset = try await machine.run("vault", "reset", "app", "--yes", "--json")
        #expect(reset.status == 0, "\(reset.errors)")
        #expect(try reset.json()["revocationPending"] == true)
        denyRoom(bus)
        let weaker = try await machine.run(
            "vault", "store", "other", "--biometrics", "--json", pins: ["2580"], input: "s3cret")
        #expect(try weaker.json()["isRevocable"] == false)
    }

    @Test func `key create with --revocable creates no key if the TPM reports no space`()
        async throws
    {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        let machine = try Machine(tcti: bus.tcti)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        let before = try await machine.run("key", "list", "--json").json()
        denyRoom(bus)
        let refused = try await machine.run(
            "key", "create", "--revocable", "--json", pins: ["2580"])
        #expect(refused.status == 1)
        #expect(try refused.json()["error"]?["code"] == "unsupported")
        #expect(try await machine.run("key", "list", "--json").json() == before)
    }

    @Test
    func
        `enable reports that its key is not revocable, and disable that the revocation is pending`()
        async throws
    {
        try await Machine.withServer { machine in
            let bus = try FaultyTPM(try SoftwareTPM.current)
            var machine = machine
            machine.environment["LATCHKEY_TCTI"] = bus.tcti
            #expect(try await machine.run("login").status == 0)
            denyRoom(bus)
            let weaker = try await machine.run("enable", "--json", pins: ["2580"])
            #expect(weaker.status == 0, "\(weaker.errors)")
            #expect(try weaker.json()["isRevocable"] == false)
            #expect(
                try weaker.json()["notRevocableReason"]?.string?.contains("no memory for another")
                    == true)
            bus.arm()
            #expect(try await machine.run("disable").status == 0)
            let enabled = try await machine.run("enable", "--json", pins: ["2580"]).json()
            #expect(enabled["isRevocable"] == true && enabled["notRevocableReason"] == nil)
            denyIndices(bus)
            let disabled = try await machine.run("disable", "--json")
            #expect(disabled.status == 7, "\(disabled.output)")
            let forced = try await machine.run("disable", "--force", "--json")
            #expect(forced.status == 0, "\(forced.errors)")
            #expect(try forced.json()["revocationPending"] == true)
        }
    }
}
