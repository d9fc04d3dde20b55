internal import Synchronization
internal import TPM2

/// The tickets of one keystore, each under the digest of the policy that it serves.
final class TicketDrawer: Sendable {
    private struct State {
        var tickets: [[UInt8]: ProofTicket] = [:]
        var emptyings = 0
    }

    private let state = Mutex(State())

    /// How often it was emptied.
    var emptyings: Int { state.withLock { $0.emptyings } }

    subscript(policy: [UInt8]) -> ProofTicket? { state.withLock { $0.tickets[policy] } }

    /// Puts a ticket in, unless the drawer was emptied since: the proof that it stands for was begun before that.
    func keep(_ ticket: ProofTicket, for policy: [UInt8], unlessEmptiedSince emptyings: Int) {
        state.withLock { state in
            if state.emptyings == emptyings { state.tickets[policy] = ticket }
        }
    }

    func discard(_ policy: [UInt8]) {
        state.withLock { $0.tickets[policy] = nil }
    }

    func empty() {
        state.withLock { state in
            state.tickets = [:]
            state.emptyings += 1
        }
    }
}

/// A proof that serves for some seconds, by the TPM's own clock. It crosses the bus in the clear, so a key that takes it
/// demands ``PresenceProtection/authValue`` too.
struct ProofTicket: Sendable {
    let ticket: ApprovalTicket
    /// The Name of who gave it: the broker's key, or the index of a user's PIN.
    let authority: TPMName
    let reference: [UInt8]
    let isFinger: Bool
}
