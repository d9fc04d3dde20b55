import Latchkey
import LatchkeyDesktop
import Testing

@testable import latchkey_presenced

/// The handles of the session part.
struct SignInTicketsTests {
    private static let secret = SecretBytes(repeatElement(UInt8(9), count: 32))

    @Test func `a handle is exchanged once, by the process and for the user that got it`() {
        var tickets = SignInTickets()
        let now = ContinuousClock.now
        let handle = tickets.add(
            Self.secret, of: .gnome, for: 1000, named: "ann", process: 5, at: now)
        #expect(handle.count == 64)
        let strangers = [
            tickets.take(handle, for: 1001, named: "ann", process: 5, at: now),
            tickets.take(handle, for: 1000, named: "eve", process: 5, at: now),
            tickets.take(handle, for: 1000, named: "ann", process: 6, at: now),
            tickets.take(
                SecretBytes(repeatElement(48, count: 64)), for: 1000, named: "ann", process: 5,
                at: now),
        ]
        #expect(strangers.allSatisfy { $0 == nil })
        #expect(
            tickets.take(handle, for: 1000, named: "ann", process: 5, at: now)?.secret
                == Self.secret)
        #expect(tickets.take(handle, for: 1000, named: "ann", process: 5, at: now) == nil)
    }

    @Test func `a handle ends after a minute`() {
        var tickets = SignInTickets()
        let now = ContinuousClock.now
        let handle = tickets.add(
            Self.secret, of: .gnome, for: 1000, named: "ann", process: 5, at: now)
        #expect(
            tickets.take(handle, for: 1000, named: "ann", process: 5, at: now + .seconds(60)) == nil
        )
    }

    @Test func `the number of secrets in memory is limited`() {
        var tickets = SignInTickets()
        let now = ContinuousClock.now
        let handles = (0..<40).map {
            tickets.add(Self.secret, of: .gnome, for: 1000 + $0, named: "ann", process: 5, at: now)
        }
        #expect(tickets.take(handles[0], for: 1000, named: "ann", process: 5, at: now) == nil)
        #expect(tickets.take(handles[39], for: 1039, named: "ann", process: 5, at: now) != nil)
    }

    @Test func `the sign-ins of one user remove only its own handles`() {
        var tickets = SignInTickets()
        let now = ContinuousClock.now
        let other = tickets.add(
            Self.secret, of: .gnome, for: 1001, named: "ann", process: 4, at: now)
        let handles = (0..<40).map {
            tickets.add(Self.secret, of: .gnome, for: 1000, named: "ann", process: $0, at: now)
        }
        #expect(tickets.take(handles[35], for: 1000, named: "ann", process: 35, at: now) == nil)
        #expect(tickets.take(handles[36], for: 1000, named: "ann", process: 36, at: now) != nil)
        #expect(tickets.take(other, for: 1001, named: "ann", process: 4, at: now) != nil)
    }
}
