import FoundationEssentials
import Latchkey
import LatchkeyDesktop

/// The secrets of keyrings between a sign-in and the session part of PAM, in memory only: each for
/// one process, once, and for a minute.
struct SignInTickets {
    /// A secret for the session part.
    struct Ticket: Sendable {
        let user: UInt32
        /// The account's name.
        let name: String
        /// The process that signed the user in.
        let process: Int32
        let kind: KeyringKind
        let secret: SecretBytes
        let end: ContinuousClock.Instant
    }

    static let lifetime: Duration = .seconds(60)
    private static let maximumCount = 32
    /// Another user's sign-ins must not remove a user's.
    private static let maximumOfUser = 4
    private static let handleBytes = 32

    private var tickets: [(handle: SecretBytes, ticket: Ticket)] = []

    /// - Returns: The handle, 64 hexadecimal digits.
    mutating func add(
        _ secret: SecretBytes, of kind: KeyringKind, for user: UInt32, named name: String,
        process: Int32, at now: ContinuousClock.Instant
    ) -> SecretBytes {
        removeOld(at: now)
        let ofUser = tickets.indices.filter { tickets[$0].ticket.user == user }
        if ofUser.count >= Self.maximumOfUser {
            tickets.remove(at: ofUser[0])
        } else if tickets.count >= Self.maximumCount {
            tickets.removeFirst()
        }
        let handle = KeyringText.hexadecimal(.random(count: Self.handleBytes))
        tickets.append(
            (
                handle,
                Ticket(
                    user: user, name: name, process: process, kind: kind, secret: secret,
                    end: now + Self.lifetime)
            ))
        return handle
    }

    /// Removes and returns the ticket of a handle. Another process's or user's ticket stays.
    mutating func take(
        _ handle: SecretBytes, for user: UInt32, named name: String, process: Int32,
        at now: ContinuousClock.Instant
    ) -> Ticket? {
        removeOld(at: now)
        let index = tickets.firstIndex {
            $0.ticket.user == user && $0.ticket.process == process && $0.ticket.name == name
                && $0.handle == handle
        }
        return index.map { tickets.remove(at: $0).ticket }
    }

    func isEmpty(at now: ContinuousClock.Instant) -> Bool {
        !tickets.contains { $0.ticket.end > now }
    }

    mutating func removeOld(at now: ContinuousClock.Instant) {
        tickets.removeAll { $0.ticket.end <= now }
    }
}
