public import Latchkey

/// An authority that asks for PINs where another one does, and for fingers through a presence broker.
public struct BrokeredPresence: PresenceAuthority {
    private let pins: any PresenceAuthority
    public let broker: PresenceBroker?
    public let preference: PresencePreference
    public var acceptsEarlierProof: Bool { pins.acceptsEarlierProof }

    /// An authority that has the broker look at fingers, and another one ask for PINs.
    public init(
        pins: any PresenceAuthority, broker: SystemPresenceBroker, preferring preference: PresencePreference = .any
    ) {
        self.pins = pins
        self.broker = PresenceBroker(broker)
        self.preference = preference
    }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await pins.pin(request)
    }

    public func notice(_ notice: PresenceNotice) async { await pins.notice(notice) }
}
