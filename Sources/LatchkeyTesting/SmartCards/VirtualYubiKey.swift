internal import Latchkey
public import LatchkeySimulators
internal import Synchronization
public import VirtualSmartCard

/// A virtual YubiKey in a private pcscd, for one test: what ykcs11, OpenSC and yubico-piv-tool take for a YubiKey.
public final class VirtualYubiKey: Sendable {
    /// The reader that it is in.
    public let reader: SmartCardReader
    /// The card in the first slot.
    public let card: VirtualCard
    /// Who vouches for the attestations of all its cards.
    public let authority: AttestationAuthority
    private let touchTimeout: Duration
    /// What pcscd counted when it noticed that the card came into the first slot.
    private let insertion = Mutex<UInt32>(0)

    private init(_ profile: CardProfile, touchTimeout: Duration, reader: SmartCardReader) throws {
        self.reader = reader
        self.touchTimeout = touchTimeout
        authority = try AttestationAuthority()
        card = VirtualCard(
            PIVApplet(profile: profile, authority: authority), port: reader.ports[0], touchTimeout: touchTimeout)
    }

    /// Starts a reader, puts a card into its first slot, and lends both to `body` when pcscd has noticed the card.
    public static func withInserted<R>(
        _ profile: CardProfile = CardProfile(), touchTimeout: Duration = .seconds(15),
        _ body: (VirtualYubiKey) async throws -> R
    ) async throws -> R {
        try await SmartCardReader.withRunning { reader in
            let yubiKey = try VirtualYubiKey(profile, touchTimeout: touchTimeout, reader: reader)
            try await yubiKey.wait(slot: 0, hasCard: true)
            let result = try await body(yubiKey)
            withExtendedLifetime(yubiKey) {}
            return result
        }
    }

    /// Puts another card into a slot, which must be empty, and waits until pcscd has noticed it.
    ///
    /// It stays there until it is ejected or the last reference goes.
    public func insert(_ profile: CardProfile, slot: Int = 1) async throws -> VirtualCard {
        let card = VirtualCard(
            PIVApplet(profile: profile, authority: authority), port: reader.ports[slot], touchTimeout: touchTimeout)
        try await wait(slot: slot, hasCard: true)
        return card
    }

    /// Pulls the card out of the first slot and waits until pcscd has noticed it.
    ///
    /// `VirtualCard.eject()` does not wait: what modules do in the 0.4 seconds until then differs.
    public func eject() async throws {
        card.eject()
        guard await reader.waitForRemoval(slot: 0, since: insertion.withLock { $0 }) else {
            throw Self.late("pcscd does not notice that the card went")
        }
    }

    /// Puts the card back into the first slot and waits until pcscd has noticed it.
    public func insert() async throws {
        card.insert()
        try await wait(slot: 0, hasCard: true)
    }

    /// Waits until a key of the card in the first slot wants to be touched.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when none does within ten seconds.
    public func waitUntilTouchIsWanted() async throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while !card.isWaitingForTouch {
            guard ContinuousClock.now < deadline else { throw Self.late("no key waits to be touched") }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    private func wait(slot: Int, hasCard: Bool) async throws {
        guard await reader.waitUntil(slot: slot, hasCard: hasCard) else {
            throw Self.late("pcscd does not notice the card")
        }
        if slot == 0, let changes = await reader.changes(slot: 0) { insertion.withLock { $0 = changes } }
    }

    private static func late(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "use the virtual YubiKey", code: .unavailable, reason: reason,
            recovery: "See that pcscd works here.")
    }
}
