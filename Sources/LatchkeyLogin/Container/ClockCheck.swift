internal import FoundationEssentials

/// How far this machine's clock is from the server's.
struct ClockCheck: Sendable {
    /// Servers accept a request whose clock differs by 300 seconds; more can't work.
    static let limit: Double = 300
    /// From here on the clock may be what a refusal is about: network and rounding take their share.
    static let suspicion: Double = 240

    /// Seconds that this machine is ahead.
    let ahead: Double

    /// - Returns: nil when the server did not say its time.
    init?(server: Date?, device: Date) {
        guard let server else { return nil }
        ahead = device.timeIntervalSince(server)
    }

    var isHopeless: Bool { abs(ahead) > Self.limit }
    var isSuspicious: Bool { abs(ahead) > Self.suspicion }
}
