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

    /// Strangers change nothing: neither do they use the link up, nor can they bring an answer.
    func reply(to head: HTTPRequestHead, from peer: LoopbackPeer?) -> RedirectReply {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let isStart = link.leads(from: parts[0])
        guard isStart || parts[0] == LoopbackListener.path else { return .notFound }
        guard head.method == .GET else { return .notAllowed }
        guard !isStart else { return start(for: peer?.owner ?? .somebodyElse) }
        guard parts.count == 2, let answer = accept(String(parts[1])) else { return .refused }
        guard let peer, peer.owner != .somebodyElse else { return .stranger }
        end(answer)
        return .done
    }

    /// The user's own programs may follow the link as often as they like, for example in a second browser. Where nobody
    /// can say whose they are, the first one has it, and the login ends when there is another.
    func start(for owner: PeerOwner) -> RedirectReply {
        switch owner {
        case .us: return .seeOther(page)
        case .somebodyElse: return .stranger
        case .unknowable:
            guard link.use() else {
                end(.linkReused)
                return .linkReused
            }
            return .seeOther(page)
        }
    }
}
