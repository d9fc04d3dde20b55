internal import Synchronization

/// The tickets of one keystore, each under the digest of the policy that it serves.
final class TicketDrawer: Sendable {
    private let tickets = Mutex<[[UInt8]: ProofTicket]>([:])

    subscript(policy: [UInt8]) -> ProofTicket? {
        get { tickets.withLock { $0[policy] } }
        set { tickets.withLock { $0[policy] = newValue } }
    }
}
