internal import Latchkey
internal import NIOHTTP1

/// What one login says to those who come to its loopback port.
struct RedirectDesk: Sendable {
    let link: OneTimeLink
    /// The address of the login page.
    let page: String
    /// Tells an answer from noise, by the query of the request.
    let accept: @Sendable (_ query: String) -> AuthorizationAnswer?
    /// Takes the end of the login. What comes after the first is passed over.
    let end: @Sendable (AuthorizationAnswer) -> Void

    /// - Parameter isKnown: Whether the client is certainly a program of this user. The system may not say, and programs of
    ///   other users are not served.
    func reply(to head: HTTPRequestHead, fromKnownUser isKnown: Bool) -> RedirectReply {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let isStart = link.leads(from: parts[0])
        guard isStart || parts[0] == LoopbackListener.path else { return .notFound }
        guard head.method == .GET else { return .notAllowed }
        guard !isStart else { return start(forKnownUser: isKnown) }
        guard parts.count == 2, let answer = accept(String(parts[1])) else { return .refused }
        end(answer)
        return .done
    }

    /// The user's own programs may follow the link any number of times, for example in a second browser. Where the system
    /// does not say whose a program is, only the first visit is let through, and a second one ends the login.
    func start(forKnownUser isKnown: Bool) -> RedirectReply {
        guard isKnown || link.use() else {
            end(.linkReused)
            return .linkReused
        }
        return .seeOther(page)
    }
}
