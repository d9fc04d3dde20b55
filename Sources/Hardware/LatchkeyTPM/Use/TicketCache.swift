internal import Synchronization
internal import TPM2

/// The tickets of one keystore, by the digest of the policy that they satisfy.
final class TicketCache: Sendable {
    private struct State {
        var tickets: [[UInt8]: ProofTicket] = [:]
        var generation = 0
    }

    private let state = Mutex(State())

    /// The number of times that the cache was emptied.
    var generation: Int { state.withLock { $0.generation } }

    subscript(policy: [UInt8]) -> ProofTicket? { state.withLock { $0.tickets[policy] } }

    /// Stores a ticket unless the cache was emptied since `generation`, when its proof began.
    func store(_ ticket: ProofTicket, for policy: [UInt8], since generation: Int) {
        state.withLock { state in
            if state.generation == generation { state.tickets[policy] = ticket }
        }
    }

    func discard(_ policy: [UInt8]) {
        state.withLock { $0.tickets[policy] = nil }
    }

    func empty() {
        state.withLock { state in
            state.tickets = [:]
            state.generation += 1
        }
    }
}

/// A proof that is valid for some seconds of the TPM's clock. It crosses the bus in plain text, so
/// a key that accepts it also requires ``PresenceProtection/authValue``.
struct ProofTicket: Sendable {
    let ticket: ApprovalTicket
    /// The Name of the broker's key, or of the index of a user's PIN.
    let authority: TPMName
    let reference: [UInt8]
    let isFinger: Bool
}
