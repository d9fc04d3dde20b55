import LatchkeyPresence
import Testing

@testable import latchkey_presenced

/// Which requests to sign in come from a person at this machine.
struct SignInPlaceTests {
    private typealias Session = LoginManager.SeatSession
    private static let user: UInt32 = 1000
    private static let local = Session(user: user)
    private static let locked = Session(user: user, isLocked: true)
    private static let remote = Session(user: user, isRemote: true, seat: "")
    private static let greeter = Session(user: 110, isGreeter: true)

    private func place(
        root isRoot: Bool = true, in group: String = "user.slice/user-1000.slice/session-2.scope",
        session: LoginManager.SeatSession? = nil, startedBy realUser: UInt32? = nil,
        by parent: Int32 = 60, unlocks: Bool = true, lingering: [UInt32] = [],
        among sessions: LoginManager.SeatSession...
    ) -> SignInPlace {
        let realUser = realUser ?? (isRoot ? 0 : Self.user)
        return SignInPlace.of(
            .init(
                isRoot: isRoot, realUser: realUser, parent: parent, controlGroup: group,
                session: session),
            for: Self.user, among: sessions, users: sessions.map(\.user) + lingering,
            unlocks: unlocks)
    }

    @Test func `sudo in the user's session at the seat may ask`() {
        #expect(place(session: Self.local, among: Self.local) == .here)
    }

    @Test func `a session that is remote, locked, inactive, ended or at no seat may not`() {
        let others = [
            Self.remote, Self.locked, LoginManager.SeatSession(user: Self.user, isActive: false),
            LoginManager.SeatSession(user: Self.user, seat: ""),
            LoginManager.SeatSession(user: Self.user, hasEnded: true),
            LoginManager.SeatSession(user: Self.user, isGreeter: true),
            // A person at another user's session.
            LoginManager.SeatSession(user: 1001),
        ]
        for session in others {
            #expect(place(session: session, among: session, Self.local) == .elsewhere, "\(session)")
        }
    }

    /// It is in the user's terminal, for example after su.
    @Test func `a setuid program that another user started may not ask`() {
        #expect(place(session: Self.local, startedBy: Self.user, among: Self.local) == .here)
        #expect(place(session: Self.local, startedBy: 1001, among: Self.local) == .elsewhere)
        #expect(
            place(root: false, session: Self.local, startedBy: 1001, among: Self.local)
                == .elsewhere)
        #expect(
            place(root: false, session: Self.local, startedBy: 0, among: Self.local) == .elsewhere)
    }

    @Test func `a session without a seat counts as remote, unless nobody has it`() {
        let unknown = LoginManager.SeatSession(user: Self.user, seat: "")
        #expect(place(session: Self.local, among: Self.local, unknown) == .besideRemote)
        #expect(place(in: Self.manager, among: Self.local, unknown) == .elsewhere)
        let job = LoginManager.SeatSession(user: Self.user, seat: "", isBackground: true)
        #expect(place(session: Self.local, among: Self.local, job) == .here)
    }

    @Test func `only a locker of the user or gdm's worker may ask while the session is locked`() {
        #expect(place(root: false, session: Self.locked, among: Self.locked) == .here)
        let led = Session(user: Self.user, isLocked: true, leader: 70)
        #expect(place(session: led, by: 70, among: led) == .here)
        #expect(place(session: led, by: 71, among: led) == .elsewhere, "root's program in it")
        #expect(place(session: led, startedBy: Self.user, by: 70, among: led) == .elsewhere, "sudo")
        let unknown = Session(user: Self.user, isLocked: true, leader: 0)
        #expect(place(session: unknown, by: 0, among: unknown) == .elsewhere)
        #expect(place(root: false, in: Self.manager, among: Self.locked) == .here)
        #expect(place(root: false, in: Self.manager, among: Self.remote) == .elsewhere)
    }

    @Test func `a change of the record asks for nothing while the session is locked`() {
        let led = Session(user: Self.user, isLocked: true, leader: 70)
        #expect(place(root: false, session: led, unlocks: false, among: led) == .elsewhere)
        #expect(place(session: led, by: 70, unlocks: false, among: led) == .elsewhere)
        #expect(place(root: false, in: Self.manager, unlocks: false, among: led) == .elsewhere)
        #expect(
            place(in: "system.slice/gdm.service", unlocks: false, among: led) == .elsewhere)
        #expect(place(root: false, session: Self.local, unlocks: false, among: Self.local) == .here)
        #expect(place(root: false, in: Self.manager, unlocks: false, among: Self.local) == .here)
    }

    @Test func `with a remote session of the user no finger is asked for, or nothing`() {
        #expect(place(session: Self.local, among: Self.remote, Self.local) == .besideRemote)
        #expect(place(in: Self.manager, among: Self.local) == .here)
        #expect(place(in: Self.manager, among: Self.local, Self.remote) == .elsewhere)
        #expect(place(root: false, in: Self.manager, among: Self.local, Self.remote) == .elsewhere)
        let console = "system.slice/system-getty.slice/getty@tty1.service"
        #expect(place(in: console, among: Self.remote) == .elsewhere)
        let ended = LoginManager.SeatSession(user: Self.user, isRemote: true, hasEnded: true)
        // Its processes may still run.
        #expect(place(in: Self.manager, among: Self.local, ended) == .elsewhere)
        #expect(place(session: Self.local, among: Self.local, ended) == .besideRemote)
    }

    @Test func `a terminal that another user's manager started may not ask`() {
        let other = "user.slice/user-1001.slice/user@1001.service/app.slice/x.scope"
        #expect(place(in: other, among: Self.local) == .elsewhere)
        #expect(place(in: Self.manager, among: Self.locked) == .elsewhere)
    }

    @Test(arguments: ["gdm.service", "sddm.service", "lightdm.service", "greetd.service"])
    func `a display manager may ask at its greeter, and gdm to unlock a session`(_ unit: String) {
        let group = "system.slice/\(unit)"
        #expect(place(in: group, among: Self.greeter) == .here)
        // Without a greeter that logind knows, a remote display may ask (XDMCP).
        let unlocks = unit == "gdm.service"
        #expect(place(in: group, among: Self.locked) == (unlocks ? .here : .elsewhere))
        #expect(place(in: group, among: Self.remote) == .elsewhere)
        #expect(place(in: group) == .elsewhere)
        #expect(place(in: group, among: Self.local) == .elsewhere, "there is nothing to unlock")
        for remote in [
            Session(user: 110, isRemote: true, isGreeter: true),
            Session(user: 110, seat: "", isGreeter: true),
        ] {
            #expect(place(in: group, among: Self.greeter, remote) == .elsewhere, "\(remote)")
        }
    }

    /// A remote program of the user can attach to the local session, and every user's program can
    /// tell gdm to ask.
    @Test func `a display manager may not ask while another program could cause it`() {
        let other = LoginManager.SeatSession(user: 1001, isActive: false)
        for others in [[Self.remote], [LoginManager.SeatSession(user: Self.user, seat: "")]] {
            for unit in ["gdm.service", "sddm.service"] {
                let group = "system.slice/\(unit)"
                #expect(place(in: group, among: Self.locked, others[0]) == .elsewhere)
                #expect(place(in: group, among: Self.greeter, others[0]) == .elsewhere)
            }
        }
        for unit in ["gdm.service", "gdm3.service"] {
            let group = "system.slice/\(unit)"
            for session in [other, Session(user: 1001, isRemote: true, seat: "")] {
                #expect(place(in: group, among: Self.locked, session) == .elsewhere)
                #expect(place(in: group, among: Self.greeter, session) == .elsewhere)
            }
            // It may have a connection of gdm from a session that has ended.
            for session in [Self.locked, Self.greeter] {
                #expect(place(in: group, lingering: [1001], among: session) == .elsewhere)
                #expect(place(in: group, lingering: [0, Self.user], among: session) == .here)
            }
            let manager = Session(user: 110, seat: "", isBackground: true)
            #expect(place(in: group, among: Self.greeter, manager) == .here, "the greeter's own")
        }
        #expect(place(in: "system.slice/sddm.service", among: Self.greeter, other) == .here)
    }

    @Test func `other services may not ask, the console may`() {
        for unit in [
            "ssh.service", "sshd.service", "cron.service", "atd.service", "xdm.service",
            "serial-getty@ttyS0.service",
            "getty@ttyS0.service", "getty@ttyUSB0.service", "getty@tty.service",
            "docker-0f.scope/system.slice/gdm.service", "docker-0f.scope/getty@tty1.service",
        ] {
            let group = "system.slice/\(unit)"
            #expect(place(in: group, among: Self.greeter, Self.local) == .elsewhere, "\(unit)")
        }
        #expect(place(in: "system.slice/system-getty.slice/getty@tty1.service") == .here)
        // Another user can start it and name this user.
        let helper = "system.slice/system-polkit.slice/polkit-agent-helper@3.service"
        #expect(place(in: helper, among: Self.local) == .elsewhere)
        #expect(place(in: "", among: Self.local) == .elsewhere)
        // A user chooses the names of the groups within its own slice.
        let own = "user.slice/user-1001.slice/user@1001.service/system.slice/gdm.service"
        #expect(place(in: own, among: Self.local, Self.greeter) == .elsewhere)
    }

    @Test func `the control group is that of systemd`() {
        #expect(
            SignInPlace.controlGroup(in: "0::/system.slice/gdm.service\n")
                == "system.slice/gdm.service")
        #expect(
            SignInPlace.controlGroup(
                in: "12:cpu:/x\n1:name=systemd:/user.slice/a:b\n0::/other\n") == "user.slice/a:b")
        #expect(SignInPlace.controlGroup(in: "5:cpu:/x\n") == nil)
        #expect(SignInPlace.controlGroup(in: "") == nil)
    }

    private static let manager =
        "user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope"
}
