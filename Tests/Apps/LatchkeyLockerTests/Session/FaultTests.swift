import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// All operations that change the store, with a fault at each step, or at a sample of the steps: a
/// use of the hardware or a request fails or is the program's last, or the disk is full. The next
/// program finds all of the change or nothing.
@Suite(.softwareTPM, .softwareToken, .timeLimit(.minutes(15)))
struct FaultTests {
    enum Operation: CaseIterable {
        case enrol, enable, change, disable, destroy
    }

    /// A fault, and the hardware.
    struct Hazard: CustomTestStringConvertible {
        let fault: Steps.Fault
        let hardware: SimulatedDevice

        /// All faults on a TPM, and one of each kind on a token, which is slower.
        static let all =
            Steps.Fault.allCases.map { Hazard(fault: $0, hardware: .tpm) }
            + [Steps.Fault.fails, .isKilledAfterwards].map { Hazard(fault: $0, hardware: .token) }

        /// The first step of a sample of every second step. A kill after a step leaves the state of
        /// a kill before the next one, so on a TPM both kinds of kills have the same steps, and
        /// together test all states.
        var firstStep: Int {
            switch (fault, hardware) {
            case (.failsAfterwards, .tpm), (_, .token): 1
            case (_, .tpm): 0
            }
        }

        var testDescription: String { "\(fault) on \(hardware)" }
    }

    /// One user's device, with a separate store.
    private struct Device {
        let directory: TemporaryDirectory
        let program: Program
        /// The text that was encrypted before the operation.
        let texts: [ProtectionLevel: String]
        /// The easy-access key before the operation.
        let easyAccessKey: String?

        var disk: Disk { Disk(path: directory.path(of: "default/latchkey.sqlite")) }
    }

    @Test(arguments: Operation.allCases, Hazard.all)
    func `a fault at any step leaves all or nothing`(_ operation: Operation, _ hazard: Hazard)
        async throws
    {
        let fault = hazard.fault
        try await Scene.with(on: hazard.hardware) { scene in
            var count = 0
            for index in Repetitions.points(from: hazard.firstStep, each: 2) {
                let device = try await prepare(scene, for: operation)
                device.program.steps.arm(fault, at: index)
                let outcome = await device.program.steps.run {
                    try await perform(operation, device.program.locker)
                }
                guard let step = device.program.steps.hit else {
                    #expect(throws: Never.self) { try outcome?.get() }
                    break
                }
                #expect((outcome == nil) == fault.isKill)
                try await look(
                    at: device, after: operation, in: scene,
                    "\(operation) \(fault) at \(index): \(step)")
                device.program.steps.releaseHalted()
                count += 1
            }
            #expect(count > (Repetitions.areComplete ? 1 : 0))
        }
    }

    @Test(arguments: Operation.allCases, SimulatedDevice.allCases)
    func `a disk that fills at any change leaves all or nothing`(
        _ operation: Operation, _ hardware: SimulatedDevice
    ) async throws {
        try await Scene.with(on: hardware) { scene in
            for count in Repetitions.points(from: hardware == .tpm ? 0 : 1, each: 2) {
                let device = try await prepare(scene, for: operation)
                try await device.disk.fill(after: count)
                let outcome = await device.program.steps.run {
                    try await perform(operation, device.program.locker)
                }
                try await device.disk.clear()
                try await look(
                    at: device, after: operation, in: scene, "\(operation), \(count) changes")
                if case .success = outcome {
                    #expect(count > 2)
                    break
                }
            }
        }
    }

    @Test(
        arguments: Operation.allCases,
        [(302, ""), (429, ""), (503, "<html>later</html>"), (200, "<html>"), (200, "{}")])
    func `an answer with other content leaves all or nothing`(
        _ operation: Operation, _ answer: (status: Int, body: String)
    ) async throws {
        try await Scene.with { scene in
            var index = 0
            var isMet = true
            while isMet {
                let device = try await prepare(scene, for: operation)
                let sent = scene.line.sent.count
                scene.line.fail(
                    at: "", skip: index, .answer(status: answer.status, body: answer.body))
                let outcome = await device.program.steps.run {
                    try await perform(operation, device.program.locker)
                }
                isMet = scene.line.sent.count - sent > index
                scene.line.heal()
                if !isMet { #expect(throws: Never.self) { try outcome?.get() } }
                try await look(
                    at: device, after: operation, in: scene, "\(operation), \(answer) at \(index)")
                index += 1
            }
            #expect(index > 1)
        }
    }

    // MARK: Helpers

    private func prepare(_ scene: Scene, for operation: Operation) async throws -> Device {
        let directory = try TemporaryDirectory()
        // A token has one PIN, which enabling and changing do not change.
        let isNewSecret = operation == .enable || operation == .change
        let pins = [scene.pin, isNewSecret && scene.hardware == .tpm ? "1357" : scene.pin]
        let program = try await scene.start(
            ScriptedPresence(pins.map { .pin($0) }), directory: directory.path)
        let locker = program.locker
        if operation != .enrol { _ = try await locker.startAuthSession() }
        let texts = program.sealAll()
        if operation == .enable {
            _ = try await locker.disableEasyAccess()
            _ = try await locker.startAuthSession()
        }
        let disk = Disk(path: directory.path(of: "default/latchkey.sqlite"))
        return Device(
            directory: directory, program: program, texts: texts,
            easyAccessKey: try await disk.easyAccessKey())
    }

    private func perform(_ operation: Operation, _ locker: Locker) async throws {
        switch operation {
        case .enrol: try await locker.startAuthSession()
        case .enable: try await locker.enableEasyAccess()
        case .change: try await locker.changeEasyAccess()
        case .disable: try await locker.disableEasyAccess()
        case .destroy: try await locker.endAuthSession(mode: .destroy)
        }
    }

    /// The state that a program finds when it starts now, with a network.
    private func look(
        at device: Device, after operation: Operation, in scene: Scene, _ situation: String
    ) async throws {
        let stood = scene.line.existingEnrolments
        let pin = try await pin(of: device, after: operation, in: scene)
        let next = try await scene.start(
            ScriptedPresence(pins: pin), directory: device.directory.path)
        let status = next.locker.authSessionStatus
        if status.phase == .unregistered {
            #expect(operation == .enrol || operation == .destroy, "\(situation)")
            #expect(next.readable(device.texts).isEmpty, "\(situation)")
            #expect(try await device.disk.rows().isEmpty, "\(situation)")
            #expect(try await device.disk.classes().allSatisfy { $0 == "device" }, "\(situation)")
            #expect(scene.line.existingEnrolments.isEmpty, "\(situation)")
        } else {
            #expect(status.phase == .enrolled, "\(situation)")
            #expect(
                status.isEasyAccessEnabled || operation == .enable || operation == .disable,
                "\(situation)")
            #expect(stood.count == 1, "\(situation)")
            try await start(next, situation)
            #expect(next.readable(device.texts) == Set(device.texts.keys), "\(situation)")
            // An online start has deleted all unused keys.
            #expect(
                try await device.disk.rows().filter { $0.hasPrefix("locker.pending") }.isEmpty,
                "\(situation)")
            _ = try? await next.locker.endAuthSession(mode: .destroy)
            #expect(next.phase == .unregistered, "\(situation)")
        }
        // An enrolment that only the server has is ignored from now on.
        scene.line.forgetEnrolments()
    }

    /// A start with easy access if the status says so; otherwise, or if the server has removed the
    /// key, with strong authentication.
    private func start(_ program: Program, _ situation: String) async throws {
        do throws(ErsteGroupAuthError) {
            let hadEasyAccess = program.locker.authSessionStatus.isEasyAccessEnabled
            let phase = try await program.locker.startAuthSession().phase
            #expect(
                phase == (hadEasyAccess ? .activeViaEasyAccess : .activeViaStrongAuth),
                "\(situation)")
        } catch {
            #expect(error == refusal(.easyAccessRevoked), "\(situation)")
            #expect(situation.hasPrefix("disable"), "\(situation)")
            #expect(
                try await program.locker.startAuthSession().phase == .activeViaStrongAuth,
                "\(situation)")
        }
    }

    /// The PIN that must work: the new one if the stored key has changed.
    private func pin(of device: Device, after operation: Operation, in scene: Scene) async throws
        -> String
    {
        guard scene.hardware == .tpm, operation == .enable || operation == .change else {
            return scene.pin
        }
        let isKept = try await device.disk.easyAccessKey() == device.easyAccessKey
        return isKept && operation == .change ? scene.pin : "1357"
    }
}
