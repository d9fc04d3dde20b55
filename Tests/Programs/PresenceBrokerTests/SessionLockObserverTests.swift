import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// Records are accessible while the session is unlocked (`kSecAttrAccessibleWhenUnlocked`): they
/// lock when logind reports that the user's session locks or the machine sleeps.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "gdbus"), .requires(program: "setpriv"),
    .softwareTPM,
    .timeLimit(.minutes(15)))
struct SessionLockObserverTests {
    @Test func `the records lock and proofs end when the session locks`() async throws {
        try await LoginManagerScene.with { scene in
            try await scene.addSession("1")
            let error = try await scene.following {
                #expect(scene.isOpen)
                try await scene.lockSession("1")
                try await scene.locks.wait(for: 1)
                #expect(!scene.isOpen)
                #expect(scene.keystore.reuseEndings == 1)
                try await scene.open()
                try await scene.setLockedHint(true, of: "1")
                try await scene.locks.wait(for: 2)
                #expect(!scene.isOpen)
                // Unlocking is not a lock.
                try await scene.open()
                try await scene.setLockedHint(false, of: "1")
                try await scene.setLockedHint(true, of: "1")
                try await scene.locks.wait(for: 3)
            }
            #expect(error == nil && scene.locks.count == 3)
        }
    }

    @Test(arguments: ["1", nil]) func `a session is locked until its desktop unlocks it`(
        _ own: String?
    ) async throws {
        try await LoginManagerScene.with(session: own) { scene in
            try await scene.addSession("1")
            try await scene.addSession("2", of: LoginManagerScene.stranger)
            let observer = SessionLockObserver(busAddress: scene.bus.address)
            #expect(await !observer.isLocked())
            try await scene.setLockedHint(true, of: "2")
            #expect(await !observer.isLocked(), "another user's session")
            try await scene.setLockedHint(true, of: "1")
            #expect(await observer.isLocked())
            try await scene.setLockedHint(false, of: "1")
            #expect(await !observer.isLocked())
            await scene.stopLogind()
            #expect(await poll { await !observer.isLocked() })
        }
    }

    @Test func `a locked session does not lock the windows of another one`() async throws {
        try await LoginManagerScene.with(session: nil) { scene in
            for id in ["1", "2", "3"] { try await scene.addSession(id) }
            for id in ["1", "2"] { try await scene.set("Type", to: "x11", of: id) }
            try await scene.set("Display", to: ":1", of: "1")
            try await scene.set("Display", to: ":2", of: "2")
            let observer = SessionLockObserver(busAddress: scene.bus.address)
            try await scene.setLockedHint(true, of: "1")
            #expect(await !observer.isLocked())
            #expect(await !observer.isLocked(display: ":2"))
            #expect(await !observer.isLocked(display: ":0"), "the display of no session")
            #expect(await observer.isLocked(display: ":1"))
            let path = "/org/freedesktop/login1/session"
            #expect(await observer.isLocked(locking: "\(path)/2"), "both lock")
            #expect(await observer.isLocked(display: ":2", locking: "\(path)/2"))
            #expect(await !observer.isLocked(display: ":2", locking: "\(path)/1"))
            try await scene.setLockedHint(true, of: "2")
            #expect(await observer.isLocked(), "only the terminal is not locked")
            try await scene.setLockedHint(false, of: "1")
            #expect(await !observer.isLocked())
            #expect(await observer.isLocked(display: ":2"))
            // Processes of a session that the user has left.
            try await scene.set("State", to: "closing", of: "1")
            #expect(await observer.isLocked())
        }
    }

    @Test func `the machine sleeps only after the records are locked`() async throws {
        try await LoginManagerScene.with { scene in
            try await scene.addSession("1")
            try await scene.following {
                let delayed = try? await scene.isSleepDelayed()
                #expect(!scene.isOpen && delayed == true)
            } _: {
                for night in 1...2 {
                    try await scene.open()
                    try await scene.announceSleep(true)
                    try await scene.locks.wait(for: night)
                    #expect(!scene.isOpen)
                    try await scene.waitForDelay(false)
                    try await scene.announceSleep(false)
                    try await scene.waitForDelay(true)
                }
            }
            try await scene.waitForDelay(false)
        }
    }

    @Test func `signals of other programs and other sessions lock nothing`() async throws {
        try await LoginManagerScene.with { scene in
            try await scene.addSession("1")
            try await scene.addSession("2")
            try await scene.following {
                let stranger = Stranger(on: scene.bus.address)
                let clients = try await stranger.names()
                try #require(!clients.isEmpty)
                for destination in [nil] + clients {
                    for (signal, object, arguments) in [
                        ("org.freedesktop.login1.Session.Lock", "/session/1", []),
                        ("\(LoginManagerScene.manager).PrepareForSleep", "", ["true"]),
                        (
                            "org.freedesktop.DBus.Properties.PropertiesChanged", "/session/1",
                            [
                                "'org.freedesktop.login1.Session'", "{'LockedHint': <true>}",
                                "@as []",
                            ]
                        ),
                    ] {
                        // gdbus can lose its connection before it has sent the signal: then send
                        // the signal again.
                        var sent = ""
                        _ = try await poll {
                            sent = try await emit(
                                stranger, signal, from: "/org/freedesktop/login1" + object,
                                arguments, to: destination)
                            return !sent.contains("The connection is closed")
                        }
                        #expect(sent == "")
                    }
                }
                try await scene.lockSession("2")
                try await scene.setLockedHint(true, of: "2")
                // The bus delivers in order.
                try await scene.lockSession("1")
                try await scene.locks.wait(for: 1)
            }
            #expect(scene.locks.count == 1)
        }
    }

    @Test func `a user service observes all sessions of the user, including new ones`() async throws
    {
        try await LoginManagerScene.with(session: nil) { scene in
            try await scene.addSession("1")
            try await scene.addSession("2", of: LoginManagerScene.stranger)
            try await scene.following {
                try await scene.lockSession("2")
                try await scene.lockSession("1")
                try await scene.locks.wait(for: 1)
                try await scene.addSession("3")
                try await scene.addSession("4", of: LoginManagerScene.stranger)
                try await scene.lockSession("4")
                try await scene.lockSession("3")
                try await scene.locks.wait(for: 2)
            }
            #expect(scene.locks.count == 2)
        }
    }

    @Test func `an observer names the session that locks or ends`() async throws {
        try await LoginManagerScene.with(session: nil) { scene in
            for id in ["1", "2"] { try await scene.addSession(id) }
            let (address, log) = (scene.bus.address, NameLog())
            let observer = Task {
                await SessionLockObserver(busAddress: address).repeatedly {
                    log.note($0)
                } onFirstFailure: {
                    Issue.record("\($0)")
                }
            }
            defer { observer.cancel() }
            try await scene.waitForDelay(true)
            try await scene.lockSession("2")
            try await scene.endSession("1")
            try await scene.announceSleep(true)
            let path = "/org/freedesktop/login1/session"
            let expected = ["\(path)/2", "\(path)/1", nil]
            #expect(await poll { log.names == expected }, "\(log.names)")
        }
    }

    @Test(arguments: ["1", nil]) func `the end of the session locks the records`(_ own: String?)
        async throws
    {
        try await LoginManagerScene.with(session: own) { scene in
            try await scene.addSession("1")
            try await scene.addSession("2", of: LoginManagerScene.stranger)
            try await scene.following {
                try await scene.endSession("2")
                try await scene.endSession("1")
                try await scene.locks.wait(for: 1)
            }
            #expect(!scene.isOpen && scene.locks.count == 1)
        }
    }

    @Test(arguments: ["1", nil]) func `an already locked session locks the records`(_ own: String?)
        async throws
    {
        try await LoginManagerScene.with(session: own) { scene in
            try await scene.addSession("1")
            try await scene.setLockedHint(true, of: "1")
            try await scene.following { try await scene.locks.wait(for: 1) }
            #expect(!scene.isOpen)
        }
    }

    @Test(arguments: [true, false])
    func `the records lock, and the app is notified, when the bus or logind is lost`(_ isBus: Bool)
        async throws
    {
        try await LoginManagerScene.with { scene in
            try await scene.addSession("1")
            let error = try await scene.following {
                // The first lock shows that the observer has read the session's state.
                try await scene.lockSession("1")
                try await scene.locks.wait(for: 1)
                try await scene.open()
                if isBus { await scene.bus.end() } else { await scene.stopLogind() }
                try await scene.locks.wait(for: 2)
                #expect(!scene.isOpen)
            }
            #expect(error?.code == .unavailable)
            #expect(error?.reason.contains("the connection to it was lost") == true)
        }
    }

    @Test(arguments: [true, false])
    func `without a bus or logind the call throws and locks nothing`(_ hasBus: Bool) async throws {
        try await LoginManagerScene.with { scene in
            await scene.stopLogind()
            let locks = scene.locks
            let observer = SessionLockObserver(
                busAddress: hasBus ? scene.bus.address : "unix:path=/nonexistent")
            let error = await #expect(throws: KeystoreError.self) {
                try await observer.run(locking: [scene.records]) { locks.note() }
            }
            #expect(error?.code == .unavailable)
            #expect(error?.reason == "systemd-logind or the system bus is missing")
            #expect(scene.isOpen && locks.count == 0)
        }
    }

    @Test func `the end of the task ends the observer and locks nothing`() async throws {
        try await LoginManagerScene.with { scene in
            try await scene.addSession("1")
            let error = try await scene.following {}
            #expect(error == nil && scene.isOpen && scene.locks.count == 0)
            try await scene.waitForDelay(false)
        }
    }

    private func emit(
        _ stranger: Stranger, _ signal: String, from object: String, _ arguments: [String],
        to destination: String?
    ) async throws -> String {
        let process = try stranger.start(
            ["emit", "--address", stranger.bus] + (destination.map { ["--dest", $0] } ?? [])
                + ["--object-path", object, "--signal", signal] + arguments)
        let complaint = await process.remainder().errors
        return await process.wait() == 0 ? complaint : "\(complaint)(failed)"
    }
}

/// The sessions that an observer named.
private final class NameLog: Sendable {
    private let list = Mutex<[String?]>([])

    var names: [String?] { list.withLock(\.self) }
    func note(_ name: String?) { list.withLock { $0.append(name) } }
}
