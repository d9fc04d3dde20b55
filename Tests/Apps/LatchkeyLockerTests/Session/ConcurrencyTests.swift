import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Concurrent lockers with one store: callers in one program, and programs with separate
/// connections.
@Suite(.softwareTPM, .softwareToken)
struct ConcurrencyTests {
    @Test
    func
        `one of several concurrent callers makes the locker, and callers with its configuration get it`()
        async throws
    {
        try await Scene.with { scene in
            let configuration = try await scene.start().locker.configuration
            var impossible = configuration
            impossible.issuer = "ftp://example.com"
            for _ in 0..<2 {
                #expect(await initialize(impossible) == .failure(refusal(.invalidConfiguration)))
            }
            let clients = [configuration.clientID, "another"]
            let made = await withTaskGroup(of: (client: String, result: Initialization).self) {
                group in
                for number in 0..<16 {
                    var mine = configuration
                    mine.clientID = clients[number % 2]
                    group.addTask { [mine] in (mine.clientID, await initialize(mine)) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let first = try #require(made.first { (try? $0.result.get()) != nil })
            for (client, result) in made {
                #expect(
                    result
                        == (client == first.client
                            ? first.result : .failure(refusal(.alreadyInitialized))))
            }
        }
    }

    private typealias Initialization = Result<ObjectIdentifier, ErsteGroupAuthError>

    private func initialize(_ configuration: LockerConfiguration) async -> Initialization {
        do throws(ErsteGroupAuthError) {
            return .success(
                ObjectIdentifier(try await ErsteGroupAuth.shared.initializeLocker(configuration)))
        } catch {
            return .failure(error)
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `one of two programs that enrol wins, and the other uses its enrolment`(
        hardware: SimulatedDevice
    ) async throws {
        try await Scene.with(on: hardware) { scene in
            let (slow, quick) = (try await scene.start(), try await scene.start())
            // The slow one has found no enrolment.
            scene.line.fail(at: "/token", .late)
            let late = Task { try await slow.locker.startAuthSession() }
            await scene.line.reached()
            #expect(try await quick.locker.startAuthSession().phase == .activeViaStrongAuth)
            let texts = quick.sealAll()
            scene.line.release()
            await #expect(throws: refusal(.conflict)) { try await late.value }
            #expect(slow.phase == .unregistered)
            try await checkOneEnrolment(scene)

            #expect(try await slow.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(slow.readable(texts) == Set(texts.keys))
            _ = try await quick.locker.endAuthSession(mode: .lock)
            #expect(try await quick.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test func `programs that enrol concurrently make one enrolment`() async throws {
        try await Scene.with { scene in
            let programs = [
                try await scene.start(), try await scene.start(), try await scene.start(),
            ]
            let successes = await withTaskGroup(of: Bool.self) { group in
                for program in programs {
                    group.addTask { (try? await program.locker.startAuthSession()) != nil }
                }
                return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(successes > 0)
            try await checkOneEnrolment(scene)
            let texts = try #require(programs.first { $0.phase.isActive }).sealAll()
            for program in programs {
                #expect(try await program.locker.startAuthSession().isActive)
                #expect(program.readable(texts) == Set(texts.keys))
            }
            try await checkOneEnrolment(scene)
        }
    }

    /// Exactly one enrolment, here and at the server, and no other rows.
    private func checkOneEnrolment(_ scene: Scene) async throws {
        #expect(scene.line.existingEnrolments.count == 1)
        let rows = try await Disk(path: scene.databasePath).rows()
        #expect(
            rows.filter { $0.hasPrefix("locker.") } == [
                "locker.counters", "locker.enrolment", "locker.offline",
            ])
    }
}
