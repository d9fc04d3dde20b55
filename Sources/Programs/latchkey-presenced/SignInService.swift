import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// The answers at the socket of the sign-in. The kernel identifies the caller: root may name any
/// user, every other user only itself. Only root gets a handle for the secret of a keyring.
///
/// A user signs in with a PIN only after PAM accepted the login password that was given with it when
/// the user's record was sealed: any program of the user can set a first PIN, but does not know the
/// login password.
actor SignInService {
    /// The time until the first answer. PAM waits one second.
    private let firstAnswer: Duration
    /// The factor of time limits.
    let patience: Int

    let authority: ApprovalAuthority
    let records: SignInRecordStore
    let log: Logger
    /// The disk and scrypt block. One call at a time, so scrypt's memory is needed once.
    let thread = BlockingThread()
    /// For reads that must not wait for scrypt. A record is replaced as a whole.
    private let reading = BlockingThread()
    let turns = SignInTurns()
    private let bus: Bus
    private let presence: PresenceService
    private let isNamed: @Sendable (UInt32) -> Bool

    /// Whether no session has yet to fetch a secret.
    var isIdle: Bool { tickets.isEmpty(at: .now) }

    private var tickets = SignInTickets()
    /// Not for root: every user can start sudo, which counts for the user that it names.
    private var byPeer = RateLimit<UInt32>(120, in: .seconds(60))
    private var byTarget = RateLimit<Target>(30, in: .seconds(60))
    private var passwords = RateLimit<Target>(6, in: .seconds(60))
    /// Since the last finger that matched: a program must not keep the reader.
    private var fingers: RateLimit<Target>

    /// Another user's requests about a target must not use up root's.
    private struct Target: Hashable {
        let user: UInt32
        let isByRoot: Bool
    }

    /// The statements of a program of PAM about itself.
    struct Program: Hashable, Sendable {
        /// The name of the account that it signs in.
        let account: String
        let service: String
        let terminal: String
    }

    /// The proofs that a user may give now.
    struct Offer: Hashable, Sendable {
        let hasPIN: Bool
        let hasFinger: Bool

        /// The line for the client.
        var line: String {
            switch (hasPIN, hasFinger) {
            case (true, true): "ask pin finger"
            case (true, false): "ask pin"
            case (false, true): "ask finger"
            case (false, false): "none"
            }
        }
    }

    /// - Throws: ``KeystoreError`` if the directory of the records cannot be created.
    init(
        bus: Bus, authority: ApprovalAuthority, presence: PresenceService, stateDirectory: String,
        patience: Int, log: Logger
    ) throws(KeystoreError) {
        let directory = "\(stateDirectory)/login"
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            throw KeystoreError(
                operation: "start the sign-in", code: .unavailable,
                reason: "\(directory) cannot be created: \(SystemError.last)",
                recovery: "Give the service a private state directory with mode 0700.")
        }
        records = SignInRecordStore(directory: directory)
        (self.bus, self.authority, self.presence, self.log) = (bus, authority, presence, log)
        isNamed = { Account.name(of: $0) != nil }
        self.patience = patience
        firstAnswer = .milliseconds(700) * patience
        fingers = RateLimit(3, in: .seconds(60) * patience)
    }

    // MARK: Limits

    /// Whether the request may be served. The kernel states the peer.
    ///
    /// A PAM program of any user can name any user, so root's `auth` counts only when it may ask;
    /// and a secret or a changed password must not be lost because of the others.
    func admits(_ peer: PeerCredentials, for user: UInt32, _ request: SignInRequest) -> Bool {
        // Root can end the sign-in of an account that was deleted.
        guard user != 0, peer.user == 0 || peer.user == user && isNamed(user) else { return false }
        let target = Target(user: user, isByRoot: peer.user == 0)
        if peer.user == 0 {
            switch request {
            case .auth, .secret, .changed: return true
            case .learned: return passwords.admit(target, at: .now)
            default: break
            }
        }
        return (peer.user == 0 || byPeer.admit(peer.user, at: .now))
            && byTarget.admit(target, at: .now)
            && (!request.usesPassword || passwords.admit(target, at: .now))
    }

    // MARK: Signing in

    /// The proofs that the service may ask the user for. Sends no command to the TPM.
    func offer(for user: UInt32, to peer: PeerCredentials, in program: Program) async -> Offer {
        let refusal = Offer(hasPIN: false, hasFinger: false)
        guard let permission = authority.signIn(of: user, named: program.account) else {
            if peer.user == 0 { await endEarlierSignIn(of: user, by: peer, in: program) }
            return refusal
        }
        let (bus, presence) = (bus, presence)
        let deadline = ContinuousClock.now + firstAnswer
        let place = await place(of: peer, for: user, in: program)
        guard place != .elsewhere,
            peer.user != 0 || byTarget.admit(Target(user: user, isByRoot: true), at: .now)
        else { return refusal }
        guard place == .here else { return Offer(hasPIN: permission.hasPIN, hasFinger: false) }
        // fprintd ends when it is idle, and can take longer to start than a prompt may wait. A finger
        // that turns out to be unavailable costs nothing but the answer.
        let hasFinger = await Self.answer(within: deadline - .now, or: true) {
            guard (try? await LoginManager(bus: bus).isLidClosed()) == false else { return false }
            return await presence.isReadyForFinger(of: user)
        }
        return Offer(hasPIN: permission.hasPIN, hasFinger: hasFinger)
    }

    /// - Parameter program: nil for a change of the record, for which the service does not ask at a
    ///   locked session.
    private func place(
        of peer: PeerCredentials, for user: UInt32, in program: Program?
    ) async -> SignInPlace {
        let bus = bus
        return await Self.answer(within: firstAnswer, or: .elsewhere) {
            await SignInPlace.of(peer, for: user, on: bus, unlocks: program != nil)
        }
    }

    /// Whether the account of this name has this number; true if the system does not answer.
    private static func mayHave(_ user: UInt32, _ name: String) -> Bool {
        do throws(SystemError) { return try Account.userID(named: name) == user } catch {
            return true
        }
    }

    /// Ends the permission of an account that no longer has its number. Every user can start su with
    /// any name, so a request that may not ask ends nothing.
    private func endEarlierSignIn(
        of user: UInt32, by peer: PeerCredentials, in program: Program
    ) async {
        guard let name = authority.nameOfSignIn(of: user),
            await !reading.run({ Self.mayHave(user, name) }),
            await place(of: peer, for: user, in: program) != .elsewhere
        else { return }
        do throws(KeystoreError) {
            try await authority.denySignIn(of: user, named: name)
        } catch {
            log.error(
                "the sign-in of an earlier account was not ended",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
    }

    /// Checks the PIN. For root, the opening of the keyring's secret is the check. Since the prompt,
    /// the session may have been locked, or become another one.
    ///
    /// - Returns: The line for the client.
    func prove(
        _ pin: PIN, of user: UInt32, by peer: PeerCredentials, in program: Program
    ) async -> SecretBytes {
        guard await place(of: peer, for: user, in: program) != .elsewhere else {
            return .line("none")
        }
        let record = peer.user == 0 ? await record(of: user, named: program.account) : nil
        do throws(KeystoreError) {
            let secret = try await authority.signIn(
                of: user, named: program.account, with: pin,
                opening: record?.sealedForKeyring.map { Data($0) })
            log.notice("a PIN was right", metadata: Self.about(user, peer, program))
            return yes(secret, of: record, for: user, peer)
        } catch {
            log.notice(
                "a PIN was refused",
                metadata: Self.about(user, peer, program, reason: error.reason))
            return Self.refusal(error)
        }
    }

    /// Verifies a finger, and opens the user's secret for root. Supports task cancellation.
    ///
    /// - Returns: The line for the client.
    func proveFinger(
        of user: UInt32, by peer: PeerCredentials, in program: Program,
        onTouch: @escaping @Sendable () -> Void
    ) async -> SecretBytes {
        let refusal = await verifyFinger(of: user, by: peer, in: program, onTouch: onTouch)
        if let refusal { return refusal }
        // The permission may have gone during the wait.
        guard authority.signIn(of: user, named: program.account) != nil else {
            return .line("none")
        }
        log.notice("a finger was right", metadata: Self.about(user, peer, program))
        let record = peer.user == 0 ? await record(of: user, named: program.account) : nil
        var secret: SecretBytes?
        if let sealed = record?.sealedForKeyring {
            do throws(KeystoreError) {
                secret = try await authority.openAfterFinger(
                    Data(sealed), of: user, named: program.account)
            } catch {
                log.error(
                    "a keyring's secret was not opened",
                    metadata: Self.about(user, peer, reason: error.reason))
            }
        }
        return yes(secret, of: record, for: user, peer)
    }

    /// Verifies a finger of the person at the machine. Supports task cancellation.
    ///
    /// - Parameter program: nil for a change of the record.
    /// - Returns: nil after a match, otherwise the line for the client.
    func verifyFinger(
        of user: UInt32, by peer: PeerCredentials, in program: Program?,
        onTouch: @escaping @Sendable () -> Void
    ) async -> SecretBytes? {
        let target = Target(user: user, isByRoot: peer.user == 0)
        guard await place(of: peer, for: user, in: program) == .here,
            fingers.admit(target, at: .now)
        else { return .line("none") }
        switch await presence.verifyForSignIn(user, peer.process, program, onTouch: onTouch) {
        case .notMatched: return .line("no")
        case .none: return .line("none")
        case .matched: fingers.forget(target)
        }
        // The person at the machine may have gone during the wait.
        return await place(of: peer, for: user, in: program) == .here ? nil : .line("none")
    }

    private func yes(
        _ secret: SecretBytes?, of record: SignInRecord?, for user: UInt32, _ peer: PeerCredentials
    ) -> SecretBytes {
        guard let secret, let record else { return .line("yes") }
        let handle = tickets.add(
            secret, of: record.kind, for: user, named: record.name, process: peer.process, at: .now)
        Task {
            try await Task.sleep(for: SignInTickets.lifetime)
            self.tickets.removeOld(at: .now)
        }
        return .line([.word("yes"), handle, .word(record.kind.description)])
    }

    /// Exchanges a handle for the secret, once, for the process that got it.
    func secret(
        _ handle: SecretBytes, of user: UInt32, named name: String, for peer: PeerCredentials
    ) -> SecretBytes {
        guard peer.user == 0,
            let ticket = tickets.take(
                handle, for: user, named: name, process: peer.process, at: .now)
        else { return .line("none") }
        return Self.line(ticket.secret, ticket.kind)
    }

    static func line(_ secret: SecretBytes, _ kind: KeyringKind) -> SecretBytes {
        .line([.word("secret"), .word(kind.description), KeyringText.hexadecimal(secret)])
    }

    // MARK: Parts

    /// The record of an account; nil without one, and if it cannot be read.
    func record(of user: UInt32, named name: String) async -> SignInRecord? {
        do throws(CommonError) {
            return try await record(of: user).flatMap { $0.name == name ? $0 : nil }
        } catch {
            log.error(
                "a record was not read",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
            return nil
        }
    }

    /// Does not wait for scrypt.
    func record(of user: UInt32) async throws(CommonError) -> SignInRecord? {
        let records = records
        return try await reading.run { () throws(CommonError) in try records.read(user: user) }
    }

    func stored<R: Sendable>(
        _ body: @escaping @Sendable (SignInRecordStore) throws(CommonError) -> R
    ) async throws(CommonError) -> R {
        let records = records
        return try await thread.run { () throws(CommonError) in try body(records) }
    }

    static func refusal(_ error: KeystoreError) -> SecretBytes {
        switch error.code {
        case .wrongProof: .line("no", "\(error.attemptsLeft ?? 0)")
        case .lockedOut: .line("locked")
        default: .line("none")
        }
    }

    static func about(
        _ user: UInt32, _ peer: PeerCredentials, _ program: Program? = nil, reason: String? = nil
    ) -> Logger.Metadata {
        var about: Logger.Metadata = ["uid": "\(user)", "pid": "\(peer.process)"]
        if let program {
            about["service"] = "\(program.service)"
            about["tty"] = "\(program.terminal)"
        }
        if let reason { about["reason"] = "\(reason)" }
        return about
    }

    /// The value of `work`, or `late` after the time limit. `work` is then cancelled.
    private static func answer<R: Sendable>(
        within limit: Duration, or late: R, _ work: @escaping @Sendable () async -> R
    ) async -> R {
        let (answers, sink) = AsyncStream.makeStream(of: R.self)
        let worker = Task { sink.yield(await work()) }
        let clock = Task {
            try await Task.sleep(for: limit)
            sink.yield(late)
        }
        defer {
            worker.cancel()
            clock.cancel()
        }
        return await answers.first { _ in true } ?? late
    }
}
