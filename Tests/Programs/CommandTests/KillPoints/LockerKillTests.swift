import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey locker`, killed at each of its kill points.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct LockerKillTests {
    private func withMachine(_ body: (Machine) async throws -> Void) async throws {
        try await Machine.withServer { machine in
            try await machine.require("vault", "store", "plain", input: "bystander")
            try await body(machine)
        }
    }

    /// An enrolled machine, and a text that only its enrolment decrypts.
    private func enrolled(_ base: Machine) async throws -> (machine: Machine, text: String) {
        let machine = try base.copy()
        try await machine.require("locker", "start", pins: ["2580"])
        return (
            machine,
            try await machine.require("locker", "encrypt", "--level", "base", input: "s3cret")
                .output
        )
    }

    private func status(_ machine: Machine) async throws -> (phase: String?, hasEasyAccess: Bool) {
        let status = try await machine.run("locker", "status", "--json").json()
        return (status["phase"]?.string, status["easyAccessEnabled"] == true)
    }

    /// Checks that the enrolment is complete: it decrypts its texts, and the PIN, if there is one,
    /// starts a session.
    private func check(_ machine: Machine, _ text: String, pin: String, _ life: KillPoints.Run)
        async throws
    {
        let opened = try await machine.run(["locker", "decrypt"], input: text)
        #expect(opened.output == "s3cret", "\(life): \(opened.errors)")
        let started = try await machine.run("locker", "start", "--level", "easy", pins: [pin])
        #expect(started.status == 0, "\(life): \(started.errors)")
        #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
    }

    @Test func `an enrolment is complete, or absent and enrolling works`() async throws {
        try await withMachine { machine in
            try await machine.cutShort(.lockerEnrolment, by: "locker", "start", pins: ["2580"]) {
                machine, life in
                let found = try await status(machine)
                #expect(
                    found.phase == "enrolled"
                        || found.phase == "unregistered" && life.killedBefore != nil, "\(life)")
                if found.phase == "unregistered" {
                    try await machine.require("locker", "start", pins: ["2580"])
                }
                let text = try await machine.run(
                    ["locker", "encrypt", "--level", "base"], input: "s3cret"
                ).output
                try await check(machine, text, pin: "2580", life)
                try await machine.require("locker", "end", "--mode", "destroy", "--yes")
            }
        }
    }

    @Test func `a change of easy access leaves the new PIN or the old one`() async throws {
        try await withMachine { base in
            var text = ""
            try await base.cutShort(
                .easyAccessChange, by: "locker", "easy-access", "change", pins: ["2580", "1357"],
                prepare: {
                    let (machine, sealed) = try await enrolled(base)
                    text = sealed
                    return (machine, [])
                },
                check: { machine, life in
                    let new = try await machine.run(
                        "locker", "start", "--level", "easy", pins: ["1357"])
                    #expect(
                        new.status == 0 || new.status == 4 && life.killedBefore != nil,
                        "\(life): \(new)")
                    try await program(
                        "tpm2_dictionarylockout",
                        ["-c", "-p", try #require(SoftwareTPM.current.lockoutPassword)],
                        environment: ["TPM2TOOLS_TCTI": machine.tcti])
                    try await check(machine, text, pin: new.status == 0 ? "1357" : "2580", life)
                    try await machine.require("locker", "end", "--mode", "destroy", "--yes")
                })
        }
    }

    @Test(arguments: ["enable", "disable"])
    func `easy access is enabled or disabled, and nothing else changes`(command: String)
        async throws
    {
        try await withMachine { base in
            var text = ""
            try await base.cutShort(
                command == "enable" ? .easyAccessEnable : .easyAccessDisable, by: "locker",
                "easy-access", command,
                pins: [command == "enable" ? "1357" : "2580"],
                prepare: {
                    let (machine, sealed) = try await enrolled(base)
                    text = sealed
                    if command == "enable" {
                        try await machine.require(
                            "locker", "easy-access", "disable", pins: ["2580"])
                    }
                    return (machine, [])
                },
                check: { machine, life in
                    let found = try await status(machine)
                    #expect(found.phase == "enrolled", "\(life)")
                    #expect(
                        life.killedBefore != nil || found.hasEasyAccess == (command == "enable"),
                        "\(life)")
                    var pin = command == "enable" ? "1357" : "2580"
                    let easy = try await machine.run(
                        "locker", "start", "--level", "easy", pins: [pin])
                    // If the server removed the key first, this machine learns it now.
                    #expect(
                        easy.status == 0 || life.killedBefore != nil || command == "disable",
                        "\(life): \(easy)")
                    if easy.status != 0 {
                        pin = "8642"
                        let again = try await machine.run(
                            "locker", "easy-access", "enable", pins: [pin])
                        #expect(again.status == 0, "\(life): \(again.errors)")
                    }
                    try await check(machine, text, pin: pin, life)
                    try await machine.require("locker", "end", "--mode", "destroy", "--yes")
                })
        }
    }

    @Test func `starting a session leaves the enrolment complete`() async throws {
        try await withMachine { base in
            let (enrolled, text) = try await enrolled(base)
            try await enrolled.cutShort(
                .lockerStart, by: "locker", "start", "--level", "easy", pins: ["2580"]
            ) { machine, life in
                try await check(machine, text, pin: "2580", life)
            }
        }
    }

    @Test func `destroying leaves the enrolment complete, or removes all of it`() async throws {
        try await withMachine { base in
            var text = ""
            try await base.cutShort(
                .lockerDestroy, by: "locker", "end", "--mode", "destroy", "--yes",
                prepare: {
                    let (machine, sealed) = try await enrolled(base)
                    text = sealed
                    return (machine, [])
                },
                check: { machine, life in
                    let found = try await status(machine)
                    if found.phase == "enrolled" {
                        #expect(life.killedBefore != nil, "\(life)")
                        try await check(machine, text, pin: "2580", life)
                        try await machine.require("locker", "end", "--mode", "destroy", "--yes")
                    } else {
                        #expect(found.phase == "unregistered", "\(life)")
                    }
                    let late = try await machine.run(["locker", "decrypt"], input: text)
                    #expect(late.status != 0 && late.output.isEmpty, "\(life)")
                })
        }
    }
}
