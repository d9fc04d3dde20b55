import FoundationEssentials
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyTPM

/// A finger for the sign-in to the machine. It shares the reader, the queue and the count of failed
/// fingers with the approvals.
extension PresenceService {
    /// The time for a finger. Then the user types the password.
    private static let signInLimit: Duration = .seconds(10)
    /// The time after which a sign-in ends the verification of another user for which it waits.
    static let signInPatience: Duration = .seconds(5)

    /// A sign-in that waits for a finger.
    struct SignIn {
        let outcome: AsyncStream<Bus.Reply>.Continuation
        /// nil for a change of the record.
        let program: SignInService.Program?
        /// Called when the reader waits for the finger.
        let onTouch: @Sendable () -> Void
    }

    /// The result of a finger for the sign-in.
    enum SignInFinger: Hashable, Sendable {
        case matched
        case notMatched
        /// No result: the reader is busy or absent, the time is over, the request was cancelled, or
        /// the user's fingers are locked.
        case none
    }

    /// Whether the user can be asked for a finger now.
    func isReadyForFinger(of user: UInt32) async -> Bool {
        await state(for: BusRequester(client: "", .init(user: user, process: nil))) == .ready
    }

    /// Verifies a finger. Supports task cancellation.
    ///
    /// A user touches the reader for one request. So no finger is verified while another request of
    /// the user waits, and a sign-in that waits ends when another request arrives.
    ///
    /// - Parameters:
    ///   - process: The program that asks.
    ///   - program: What PAM states about it; nil for a change of the record.
    ///   - onTouch: Called when the reader waits for the finger.
    func verifyForSignIn(
        _ user: UInt32, _ process: Int32, _ program: SignInService.Program?,
        onTouch: @escaping @Sendable () -> Void
    ) async -> SignInFinger {
        let id = nextID + 1
        nextID = id
        // Clients of the bus have unique names that begin with a colon.
        let client = "sign-in \(id)"
        let requester = BusRequester(client: client, .init(user: user, process: process))
        guard approvals.admit(user, at: .now), !Task.isCancelled else { return .none }
        guard !pending.values.contains(where: { $0.requester.user == user }) else {
            await endSignIns(of: user)
            return .none
        }
        let entry = ApprovalQueue.Entry(id: id, client: client, user: user)
        let (outcomes, outcome) = AsyncStream.makeStream(of: Bus.Reply.self)
        let signIn = SignIn(outcome: outcome, program: program, onTouch: onTouch)
        pending[id] = Pending(
            entry: entry, goal: .signIn(signIn), requester: requester,
            arrival: .now, limit: Self.signInLimit * patience)
        await perform(queue.enqueue(entry))
        let answer = await withTaskCancellationHandler {
            await outcomes.first { _ in true }
        } onCancel: {
            outcome.finish()
        }
        if answer == nil { await perform(queue.cancel(client: client)) }
        switch answer {
        case .success?: return .matched
        case .failure(let error)? where error.name == PresenceWire.notRecognised.name:
            return .notMatched
        case .failure?, nil: return .none
        }
    }

    /// Ends the sign-ins of a user that wait for a finger.
    func endSignIns(of user: UInt32) async {
        for request in pending.values where request.requester.user == user {
            guard case .signIn = request.goal else { continue }
            await perform(queue.cancel(client: request.entry.client))
        }
    }
}
