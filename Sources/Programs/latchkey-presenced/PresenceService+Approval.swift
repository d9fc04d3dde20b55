import FoundationEssentials
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyTPM
import Logging

extension PresenceService {
    func approve(
        _ message: BusMessage, _ method: PresenceWire.Method, for requester: BusRequester
    ) async {
        let request =
            method == .approve
            ? PresenceWire.request(message.arguments)
            : PresenceWire.severalRequest(message.arguments)
        guard let request else {
            return await reply(message, Self.refuse(.invalidInput, "the request cannot be read"))
        }
        do throws(KeystoreError) {
            try authority.check(request)
        } catch {
            return await reply(message, .failure(PresenceWire.error(error)))
        }
        if request.policy.isBoundToFingers, !requester.isAccount {
            return await reply(message, .failure(PresenceWire.error(Self.noAccount)))
        }
        await enqueue(.use(request, message), message, for: requester)
    }

    /// Verifies the user for a request that uses no key.
    func evaluate(_ message: BusMessage, for requester: BusRequester) async {
        guard
            let statement = PresenceWire.ownerRequest(
                message.arguments, of: requester.user, message.sender)
        else {
            return await reply(message, Self.refuse(.invalidInput, "the request cannot be read"))
        }
        do throws(KeystoreError) {
            try authority.check(statement)
        } catch {
            return await reply(message, .failure(PresenceWire.error(error)))
        }
        await enqueue(.evaluation(statement, message), message, for: requester)
    }

    private func enqueue(_ goal: Goal, _ message: BusMessage, for requester: BusRequester) async {
        guard approvals.admit(requester.user, at: .now) else {
            return await reply(message, Self.tooManyRequests)
        }
        // If a PIN may have ended the lockout, the service queries the TPM when it handles this
        // request.
        let attempts = authority.fingerAttempts(of: requester.user)
        if let lock = attempts.lock(at: .now), attempts.watchedPIN == nil {
            return await reply(message, Self.locked(lock))
        }
        await endSignIns(of: requester.user)
        nextID += 1
        let entry = ApprovalQueue.Entry(id: nextID, client: message.sender, user: requester.user)
        pending[nextID] = Pending(
            entry: entry, goal: goal, requester: requester, arrival: .now, limit: timeLimit)
        await perform(queue.enqueue(entry))
    }

    /// Performs the queue's actions.
    func perform(_ actions: [ApprovalQueue.Action]) async {
        for action in actions {
            switch action {
            case .begin(let entry): begin(entry)
            case .wait(let entry): await wait(entry)
            case .refuse(let entry):
                await answer(entry.id, Self.refuse(.transient, "too many requests are waiting"))
            case .withdraw(let entry):
                await answer(entry.id, Self.declined("the request was withdrawn"))
            case .interrupt(let entry): pending[entry.id]?.work?.cancel()
            }
        }
    }

    private func wait(_ entry: ApprovalQueue.Entry) async {
        guard let waiting = pending[entry.id] else { return }
        await report(.queued, waiting)
        pending[entry.id]?.clock = Task {
            var limit = waiting.limit
            if case .signIn = waiting.goal {
                try await Task.sleep(for: Self.signInPatience)
                await self.perform(self.queue.interrupt(for: entry.id))
                limit -= Self.signInPatience
            }
            try await Task.sleep(for: limit)
            await self.perform(self.queue.expire(entry.id))
        }
    }

    private func begin(_ entry: ApprovalQueue.Entry) {
        pending[entry.id]?.clock?.cancel()
        pending[entry.id]?.work = Task {
            if let pending = self.pending[entry.id] {
                await self.answer(entry.id, await self.look(pending))
            }
            await self.perform(self.queue.finish(entry.id))
        }
    }

    private func answer(_ id: UInt64, _ reply: Bus.Reply) async {
        guard let done = pending.removeValue(forKey: id) else { return }
        done.clock?.cancel()
        switch done.goal {
        case .use(_, let message), .evaluation(_, let message): await self.reply(message, reply)
        case .signIn(let signIn):
            signIn.outcome.yield(reply)
            signIn.outcome.finish()
        }
    }

    /// Verifies a finger, and approves the request if it is the caller's.
    private func look(_ pending: Pending) async -> Bus.Reply {
        let requester = pending.requester
        guard let name = requester.userName else {
            return Self.refuse(.unavailable, "the user \(requester.user) has no name")
        }
        // The finger that was shown for the user's last request may still be on the reader.
        if let end = lastEnds[requester.user] {
            try? await Task.sleep(until: end + QuietTimes<UInt32>.pause, clock: .continuous)
            guard !Task.isCancelled else { return Self.declined("the request was cancelled") }
        }
        // Another request of the same user may have reached the limit while this one waited.
        if let lock = await fingerLock(of: requester.user) { return Self.locked(lock) }
        let found: FingerprintReader.Found
        let before: Data
        do throws(BusError) {
            found = try await reader.find()
            before = try await enrolment(of: name, in: found).set
        } catch {
            return Self.noReader(error)
        }
        do throws(KeystoreError) {
            try await recordStart(of: requester.user)
            // An earlier verification whose end could not be recorded may have reached the limit.
            if let lock = authority.fingerAttempts(of: requester.user).lock(at: .now) {
                try await recordEnd(of: requester.user)
                return Self.locked(lock)
            }
        } catch {
            return notRecorded(error)
        }
        let left = pending.limit - (ContinuousClock.now - pending.arrival)
        log.notice(
            "a fingerprint verification started",
            metadata: [
                "uid": "\(requester.user)",
                "pid": "\(requester.process.map(String.init) ?? "unknown")",
            ])
        let outcome = await reader.verify(name, in: found, within: max(left, .zero)) { progress in
            await self.report(progress, pending)
        }
        lastEnds = lastEnds.filter { $0.value + QuietTimes<UInt32>.pause > .now }
        lastEnds[requester.user] = .now
        log.notice(
            "a fingerprint verification ended",
            metadata: ["uid": "\(requester.user)", "outcome": "\(outcome)"])
        do throws(KeystoreError) {
            switch outcome {
            case .matched: try await recordMatch(of: requester.user)
            case .notMatched: try await recordFailure(of: requester.user)
            default: try await recordEnd(of: requester.user)
            }
        } catch {
            return notRecorded(error)
        }
        switch outcome {
        case .matched: return await approve(pending, of: name, in: found, unchangedSince: before)
        case .notMatched: return .failure(PresenceWire.notRecognised)
        case .cancelled: return Self.declined("the request was cancelled")
        case .late: return Self.declined("no finger was placed in time")
        case .notEnrolled:
            return Self.refuse(
                .notEnrolled, "you have no finger enrolled", "Enrol one: fprintd-enroll.")
        case .busy:
            return Self.refuse(
                .unavailable, "fprintd says that another program uses the fingerprint reader",
                Recovery("Close that program, then try again.", .restartReader))
        case .failed(let why):
            return Self.refuse(
                .unavailable, why, "Try again, or use your PIN if the key's policy allows it.")
        }
    }

    /// Signs an approval. The enrolled fingers must be the same as before the verification.
    private func approve(
        _ pending: Pending, of name: String, in found: FingerprintReader.Found,
        unchangedSince before: Data
    ) async -> Bus.Reply {
        let user = pending.requester.user
        do throws(BusError) {
            guard try await enrolment(of: name, in: found).set == before else {
                return Self.refuse(
                    .transient, "the enrolled fingers changed during the verification")
            }
        } catch {
            return Self.noReader(error)
        }
        let values: [BusValue]
        do throws(KeystoreError) {
            switch pending.goal {
            case .signIn: values = []
            case .evaluation(let statement, _):
                values = PresenceWire.arguments(try await authority.confirm(statement))
            case .use(let request, _):
                let approval = try await authority.approve(
                    request, for: user, enrolmentSet: before,
                    elapsed: ContinuousClock.now - pending.arrival)
                values =
                    request.further.isEmpty
                    ? PresenceWire.arguments(approval)
                    : PresenceWire.arguments(several: approval)
            }
            await resetPIN(of: user)
            return .success(values)
        } catch {
            log.error("the TPM did not approve", metadata: ["reason": "\(error.reason)"])
            return .failure(PresenceWire.error(error))
        }
    }

    /// The finger has verified the user, so the count of wrong PINs is reset.
    private func resetPIN(of user: UInt32) async {
        do throws(KeystoreError) {
            try await authority.resetPIN(of: user)
        } catch {
            guard error.code != .notFound else { return }
            log.error("a PIN's count was not reset", metadata: ["reason": "\(error.reason)"])
        }
    }

    /// Without the count of fingers on the disk, a restart would give new attempts.
    private func notRecorded(_ error: KeystoreError) -> Bus.Reply {
        log.error("a finger was not counted", metadata: ["reason": "\(error.reason)"])
        return Self.refuse(
            .unavailable, "the presence broker cannot store the count of fingers",
            "Ask an administrator to read the log of latchkey-presenced, or use your PIN.")
    }

    private static func declined(_ why: String) -> Bus.Reply {
        .failure(PresenceWire.declined(why))
    }

    private static func noReader(_ error: BusError) -> Bus.Reply {
        refuse(
            .unavailable,
            error.isAbsence
                ? "fprintd is not running"
                : "there is no fingerprint reader (\(error.message.prefix(100)))",
            Recovery(
                "Connect a fingerprint reader and install fprintd, or use your PIN.",
                .restartReader))
    }
}
