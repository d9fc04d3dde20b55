public import Latchkey

/// Prompts for PINs with another authority, and verifies fingers through a presence broker.
public struct BrokeredPresence: PresenceAuthority {
    private let pins: any PresenceAuthority
    public let broker: PresenceBroker?
    public let preference: PresencePreference
    public var acceptsEarlierProof: Bool { pins.acceptsEarlierProof }
    public var isInteractive: Bool { pins.isInteractive }

    /// Combines an authority for PINs with a broker for fingers.
    public init(
        pins: any PresenceAuthority, broker: SystemPresenceBroker,
        preferring preference: PresencePreference = .any
    ) {
        self.pins = pins
        self.broker = PresenceBroker(broker)
        self.preference = preference
    }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await pins.pin(request)
    }

    public func notice(_ notice: PresenceNotice) async { await pins.notice(notice) }
    public func accepted() { pins.accepted() }
    public func rejected() { pins.rejected() }
}

/// The progress of a fingerprint prompt.
public enum FingerProgress: String, Sendable, CaseIterable {
    /// The request waits for another one.
    case queued
    /// The reader waits for the finger.
    case waiting
    /// The finger could not be read. Place it again.
    case retry
    /// The swipe was too short.
    case swipeTooShort = "swipe-too-short"
    /// The finger was not on the middle of the sensor.
    case centreFinger = "centre-finger"
    /// Lift the finger and place it again.
    case removeFinger = "remove-finger"
    /// The finger matches the user.
    case matched
    /// The finger does not match the user.
    case notMatched = "not-matched"
    /// The prompt was withdrawn.
    case withdrawn
}
