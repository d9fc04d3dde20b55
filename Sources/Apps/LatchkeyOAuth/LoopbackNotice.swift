internal import Latchkey
internal import Synchronization

/// A refusal at the loopback port of a login that the user must know of: otherwise the login waits,
/// and the user does not see why.
enum LoopbackNotice: Hashable, Sendable {
    /// A program of this other user connected.
    case otherUser(UInt32)
    /// The system does not show which user's program asked for a page whose URL contains a secret.
    case unknownUser
    /// A response to an authorization request has no `state`. It has this error, or a code.
    case noState(OAuth2Error?)
    /// A response to an authorization request has another `state`.
    case otherState
    /// A request of the redirect URI has no query.
    case noQuery

    /// A refused query of the redirect URI.
    ///
    /// - Returns: nil if it is not a response to an authorization request.
    init?(refused query: String) {
        let fields = Dictionary(
            FormEncoding.decodableFields(of: query).map { ($0.name, $0.value) }
        ) { first, _ in first }
        guard fields["code"] != nil || fields["error"] != nil else { return nil }
        guard fields["state"] == nil else {
            self = .otherState
            return
        }
        self = .noState(
            fields["error"].map {
                OAuth2Error(error: $0, description: fields["error_description"])
            })
    }

    /// The text for the user, in sentences.
    ///
    /// - Parameter port: The port of the login.
    func text(port: UInt16) -> String {
        switch self {
        case .otherUser(let user):
            "A program of another user (user ID \(user)) connected to this login's port \(port) and was refused, "
                + "because only your own programs can complete the login. If that was your browser, use a browser "
                + "that runs on this machine as your user, or on another computer after ‘\(Self.tunnel(port))’ "
                + "there."
        case .unknownUser:
            "The system does not show which user's program opened this link at port \(port). The page's address "
                + "contains a secret, so it was not sent. Stop, open the page in your browser, and log in there."
        case .noState(let error?):
            "The browser brought an error without ‘state’ to this login: ‘\(error.error)’"
                + (error.description.map { " (\($0))" } ?? "")
                + ". Any program can send such an answer, so the login still waits. If the server's page showed this "
                + "error, stop the login, and show this text to the server's operator."
        case .noState(nil):
            "The browser brought a code without ‘state’ to this login. Any program can send such an answer, so "
                + "it was ignored, and the login still waits. If you have just logged in, stop the login, and show "
                + "this text to the server's operator."
        case .otherState:
            "The browser brought the answer to another login. It was ignored, and this login still waits. Use the "
                + "page that this login opened."
        case .noQuery:
            "The browser opened the address of this login without an answer in the query (response_mode=query). Its "
                + "page passes on an answer in the fragment. Any page can open the address, so the login still waits. If "
                + "you have just logged in, stop the login, and show this text to the server's operator."
        }
    }

    /// The command that forwards the port from another computer.
    static func tunnel(_ port: UInt16) -> String { "ssh -L \(port):127.0.0.1:\(port)" }
}

/// Reports each kind of notice once, so that a hostile program cannot fill the terminal.
final class LoopbackNotices: Sendable {
    private enum Kind { case otherUser, unknownUser, noState, otherState, noQuery }

    private let reported = Mutex<Set<Kind>>([])
    private let report: @Sendable (LoopbackNotice) -> Void

    init(_ report: @escaping @Sendable (LoopbackNotice) -> Void) {
        self.report = report
    }

    func add(_ notice: LoopbackNotice) {
        let kind: Kind =
            switch notice {
            case .otherUser: .otherUser
            case .unknownUser: .unknownUser
            case .noState: .noState
            case .otherState: .otherState
            case .noQuery: .noQuery
            }
        guard reported.withLock({ $0.insert(kind).inserted }) else { return }
        report(notice)
    }
}
