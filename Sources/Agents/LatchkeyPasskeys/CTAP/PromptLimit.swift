/// The limit on the prompts of each site that the user does not accept: a page can begin and cancel
/// requests in a row. A state machine over given times.
struct PromptLimit: Sendable {
    /// The maximum number of prompts in one minute.
    static let perMinute = 6
    /// The time after a refusal, or after the client ended a prompt, in which the same site gets no
    /// prompt.
    static let refusalTime: Duration = .seconds(10)

    private var times: [String: [Duration]] = [:]
    private var refusals: [String: Duration] = [:]
    private var abandoned: [String: (time: Duration, openers: DeviceOpeners?)] = [:]

    /// Whether the user refused a request of the site a moment ago; or a prompt for it was ended,
    /// and the request may be another program's. All programs read the packets of the device, so
    /// one can end another one's request and take the consent in an identical prompt.
    mutating func isRefused(_ rpID: String, to openers: DeviceOpeners?, at now: Duration) -> Bool {
        refusals = refusals.filter { now - $0.value < Self.refusalTime }
        abandoned = abandoned.filter { now - $0.value.time < Self.refusalTime }
        guard refusals[rpID] == nil else { return true }
        guard let earlier = abandoned[rpID] else { return false }
        guard let openers, openers.isOne else { return true }
        return earlier.openers?.names.keys != openers.names.keys
    }

    /// The client has ended a request of the site while its prompt was open.
    mutating func abandon(_ rpID: String, of openers: DeviceOpeners?, at now: Duration) {
        abandoned[rpID] = (now, openers)
    }

    /// The user has refused a request of the site.
    mutating func refuse(_ rpID: String, at now: Duration) { refusals[rpID] = now }

    /// Counts a prompt.
    ///
    /// - Parameter site: nil for requests without a site, which share one limit.
    /// - Returns: Whether the prompt may be shown.
    mutating func admit(_ site: String?, at now: Duration) -> Bool {
        times = times.mapValues { $0.filter { now - $0 < .seconds(60) } }.filter {
            !$0.value.isEmpty
        }
        var recent = times[site ?? ""] ?? []
        guard recent.count < Self.perMinute else { return false }
        recent.append(now)
        times[site ?? ""] = recent
        return true
    }

    /// Forgets the earlier prompts of a site after the user has accepted one.
    mutating func accept(_ site: String?) { times[site ?? ""] = nil }
}
