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
        session: LoginManager.SeatSession? = nil, among sessions: LoginManager.SeatSession...
    ) -> SignInPlace {
        SignInPlace.of(
            .init(isRoot: isRoot, controlGroup: group, session: session), for: Self.user,
            among: sessions)
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

    @Test func `a locker of the user may ask while the session is locked`() {
        #expect(place(root: false, session: Self.locked, among: Self.locked) == .here)
        #expect(place(root: false, in: Self.manager, among: Self.locked) == .here)
        #expect(place(root: false, in: Self.manager, among: Self.remote) == .elsewhere)
    }

    @Test func `with a remote session of the user no finger is asked for, or nothing`() {
        #expect(place(session: Self.local, among: Self.remote, Self.local) == .besideRemote)
        #expect(place(in: Self.manager, among: Self.local) == .here)
        #expect(place(in: Self.manager, among: Self.local, Self.remote) == .elsewhere)
        #expect(place(root: false, in: Self.manager, among: Self.local, Self.remote) == .elsewhere)
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
    func `a display manager may ask at its greeter, and to unlock a session`(_ unit: String) {
        let group = "system.slice/\(unit)"
        #expect(place(in: group, among: Self.greeter) == .here)
        #expect(place(in: group, among: Self.locked) == .here)
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

    @Test func `other services may not ask, the console may`() {
        for unit in ["ssh.service", "sshd.service", "cron.service", "serial-getty@ttyS0.service"] {
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
