import Latchkey
import LatchkeyTesting
import Synchronization
import Testing

struct PresenceSessionTests {
    private let current = PINRequest(purpose: .current, context: PromptContext(reason: "log in"))
    private let new = PINRequest(purpose: .new, context: PromptContext(reason: "log in"))

    private func isPIN(_ answer: PINAnswer, _ text: String) throws -> Bool {
        guard case .pin(let pin) = answer else { return false }
        return try pin == PIN(text)
    }

    @Test func `a PIN answers the next request only after the hardware has accepted it`()
        async throws
    {
        let user = ScriptedPresence(pins: "1111", "2222", "3333")
        let session = PresenceSession(user)
        session.accepted()
        #expect(try isPIN(await session.pin(current), "1111"))
        #expect(try isPIN(await session.pin(current), "2222"))
        session.accepted()
        #expect(try isPIN(await session.pin(current), "2222"))
        #expect(try isPIN(await session.pin(current), "3333"))
        #expect(user.requests.count == 3)
    }

    @Test func `a rejected PIN is never sent again`() async throws {
        let user = ScriptedPresence(pins: "1111", "2222", "3333", "4444")
        let session = PresenceSession(user)
        _ = try await session.pin(current)
        session.rejected()
        #expect(session.acceptedPIN == nil)
        session.accepted()
        #expect(try isPIN(await session.pin(current), "2222"))
        _ = try await session.pin(new)
        session.rejected()
        #expect(try isPIN(await session.pin(new), "4444"))
    }

    @Test
    func `a new PIN answers later requests for a new PIN, and for the current one once it is set`()
        async throws
    {
        let user = ScriptedPresence([.pin("1111"), .decline])
        let session = PresenceSession(user)
        #expect(try isPIN(await session.pin(new), "1111"))
        #expect(try isPIN(await session.pin(new), "1111"))
        session.accepted()
        #expect(try isPIN(await session.pin(current), "1111"))
        guard case .declined = try await session.pin(current) else {
            Issue.record("it answered for the user")
            return
        }
        #expect(user.requests.count == 2)
    }

    @Test func `a new PIN that is too short for a later request is asked for again`() async throws {
        let user = ScriptedPresence(pins: "1111", "222222")
        let session = PresenceSession(user)
        #expect(try isPIN(await session.pin(new), "1111"))
        var stricter = new
        stricter.minimumCharacters = 6
        #expect(try isPIN(await session.pin(stricter), "222222"))
        #expect(try isPIN(await session.pin(stricter), "222222"))
        #expect(user.asked.count == 2)
    }

    @Test func `the code of a security officer is never repeated or kept`() async throws {
        let user = ScriptedPresence(pins: "1111", "2222")
        let session = PresenceSession(user)
        _ = try await session.pin(PINRequest(purpose: .securityOfficer, context: current.context))
        session.accepted()
        #expect(session.acceptedPIN == nil)
        #expect(try isPIN(await session.pin(current), "2222"))
        #expect(session.acceptedPIN == nil)
        session.accepted()
        #expect(try session.acceptedPIN == PIN("2222"))
    }

    /// An operation that changes the PIN prompts for both.
    @Test func `the current PIN never answers a request for a new one`() async throws {
        let user = ScriptedPresence(pins: "1111", "2222")
        let session = PresenceSession(user)
        _ = try await session.pin(current)
        session.accepted()
        #expect(try isPIN(await session.pin(new), "2222"))
    }

    @Test func `a first PIN answers one request without a prompt`() async throws {
        let session = PresenceSession(NobodyPresent(), firstPIN: try PIN("1111"))
        #expect(try isPIN(await session.pin(current), "1111"))
        await #expect(throws: KeystoreError.self) { _ = try await session.pin(current) }
    }

    @Test
    func
        `the container's existing PIN answers a request for a new one, after the hardware has accepted it`()
        async throws
    {
        let user = ScriptedPresence(pins: "1111", "2222")
        let session = PresenceSession(user) { [current] (_, presence) async throws(KeystoreError) in
            _ = try await presence.pin(current)
            presence.accepted()
            return true
        }
        let existing = try await PresenceSession(session).givenPIN(new)
        #expect(try existing == PIN("1111") && existing.isExisting)
        #expect(try session.acceptedPIN == PIN("1111"))
        // Otherwise the user could choose a new PIN.
        let hint = "It is the PIN that the vaults and other secrets of this container already have."
        #expect(user.requests.last?.hint == hint)
        let without = PresenceSession(user) { (_, _) async throws(KeystoreError) in false }
        let chosen = try await without.givenPIN(new)
        #expect(try chosen == PIN("2222") && !chosen.isExisting)
        #expect(user.requests.last?.hint == nil)
    }

    @Test func `a nested session reports the hardware's decision to the outer session`()
        async throws
    {
        let user = ScriptedPresence(pins: "1111")
        let outer = PresenceSession(user)
        let inner = PresenceSession(outer, acceptsEarlierProof: false)
        #expect(outer.acceptsEarlierProof && !inner.acceptsEarlierProof)
        _ = try await inner.pin(current)
        inner.accepted()
        #expect(try isPIN(await outer.pin(current), "1111"))
    }

    @Test func `an authority between two sessions passes the hardware's decision on`() async throws
    {
        struct Between: PresenceAuthority {
            let inner: any PresenceAuthority

            func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
                try await inner.pin(request)
            }
            func accepted() { inner.accepted() }
            func rejected() { inner.rejected() }
        }
        let outer = PresenceSession(ScriptedPresence(pins: "1111", "2222"))
        let inner = PresenceSession(Between(inner: outer))
        _ = try await inner.pin(current)
        inner.accepted()
        #expect(try isPIN(await outer.pin(current), "1111"))
        inner.rejected()
        #expect(try isPIN(await outer.pin(current), "2222"))
    }

    @Test(arguments: [2, 1, 0, nil] as [Int?])
    func `a wrong PIN is requested once more if the hardware reports attempts`(left: Int?)
        async throws
    {
        let user = ScriptedPresence(pins: "1111", "2222", "3333")
        let session = PresenceSession(user)
        let error = await #expect(throws: KeystoreError.self) {
            try await session.withSecondAttempt { () throws(KeystoreError) in
                _ = try await session.pin(current)
                session.rejected()
                throw KeystoreError.wrong(left)
            }
        }
        #expect(error?.code == .wrongProof)
        let hints = user.requests.map(\.hint)
        #expect(hints == (left ?? 0 > 0 ? [nil, "The last PIN was wrong."] : [nil]))
    }

    @Test func `a wrong finger is requested once more, and no prompt calls a PIN wrong`()
        async throws
    {
        let user = ScriptedPresence(pins: "1111", "2222")
        let session = PresenceSession(user)
        let isFirst = Mutex(true)
        try await session.withSecondAttempt { () throws(KeystoreError) in
            if isFirst.withLock({ $0 }) {
                isFirst.withLock { $0 = false }
                throw KeystoreError.wrong(nil)
            }
            _ = try await session.pin(current)
        }
        #expect(user.requests.map(\.hint) == [nil])
    }

    @Test func `without a person, and after another error, there is no second attempt`()
        async throws
    {
        struct File: PresenceAuthority {
            var isInteractive: Bool { false }
            func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
                throw .cancelled()
            }
        }
        for (session, error) in [
            (PresenceSession(File()), KeystoreError.wrong(2)),
            (PresenceSession(ScriptedPresence([])), .cancelled()),
        ] {
            let count = Mutex(0)
            await #expect(throws: error) {
                try await session.withSecondAttempt { () throws(KeystoreError) in
                    count.withLock { $0 += 1 }
                    throw error
                }
            }
            #expect(count.withLock(\.self) == 1)
        }
    }

    @Test func `a wrong existing PIN has the way to a new one as its next step`() async throws {
        let user = ScriptedPresence(pins: "1111")
        let session = PresenceSession(user) { [current] (_, presence) async throws(KeystoreError) in
            _ = try await presence.pin(current)
            presence.rejected()
            throw KeystoreError.wrong(1)
        }
        let error = await #expect(throws: KeystoreError.self) { try await session.givenPIN(new) }
        #expect(error?.code == .wrongProof && error?.attemptsLeft == 1)
        #expect(error?.recovery.contains("If you forgot it, delete all secrets") == true)
    }

    @Test func `a wrong existing PIN counts as rejected by the session`() async throws {
        let user = ScriptedPresence(pins: "1111", "2222", "3333")
        let isRight = Mutex(false)
        let session = PresenceSession(user) { [current] (_, presence) async throws(KeystoreError) in
            _ = try await presence.pin(current)
            guard isRight.withLock({ $0 }) else {
                isRight.withLock { $0 = true }
                presence.rejected()
                throw KeystoreError.wrong(1)
            }
            presence.accepted()
            return true
        }
        let pin = try await session.withSecondAttempt { () throws(KeystoreError) in
            try await session.givenPIN(new)
        }
        #expect(try pin == PIN("2222"))
        #expect(
            user.requests.map(\.hint) == [
                "It is the PIN that the vaults and other secrets of this container already have.",
                "The last PIN was wrong. It is the PIN that the vaults and other secrets of this container already have.",
            ])
    }

    /// A fingerprint cannot be reused, so the user is told to use the reader each time.
    @Test func `notices are forwarded`() async {
        let user = ScriptedPresence([])
        let session = PresenceSession(user)
        let notice = PresenceNotice.useReader(PromptContext(reason: "log in"))
        await session.notice(notice)
        session.accepted()
        await session.notice(notice)
        #expect(user.notices == [notice, notice])
    }
}

extension KeystoreError {
    fileprivate static func wrong(_ attemptsLeft: Int?) -> KeystoreError {
        KeystoreError(
            code: .wrongProof, reason: "the proof is wrong", recovery: "Try again.",
            attemptsLeft: attemptsLeft)
    }
}
