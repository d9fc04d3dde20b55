internal import FoundationEssentials
package import HTTPTypes
package import Latchkey
internal import Synchronization

/// Adds proofs to the requests of one client, and keeps the latest nonce of each server.
package final class DPoPProver: Sendable {
    package let key: DPoPKey
    /// The latest nonce by origin (RFC 9449 section 8.2).
    private let nonces = Mutex<[String: String]>([:])

    /// The field of a proof (section 4.1).
    private static let field = "DPoP"
    /// The field of a server's nonce (section 8).
    private static let nonceField = "DPoP-Nonce"
    /// The maximum length of a nonce in bytes. A longer one is ignored.
    private static let maximumNonceLength = 1024
    /// The maximum number of origins with a nonce.
    private static let maximumOrigins = 64

    package init(_ key: DPoPKey) { self.key = key }

    /// The token of a field `Authorization` that needs a proof (section 7.1).
    static func token(in authorization: String) -> String? {
        let scheme = authorization.prefix(5)
        return scheme.lowercased() == "dpop " ? String(authorization.dropFirst(5)) : nil
    }

    /// Adds the proof to a request.
    ///
    /// - Parameter nonce: The server's nonce; nil for the latest one of its origin.
    /// - Returns: The nonce in the proof.
    @discardableResult
    package func addProof(to request: inout HTTPRequest, nonce: String? = nil)
        async throws(CommonError) -> String?
    {
        let nonce = nonce ?? nonces.withLock { $0[Self.origin(of: request)] }
        let token = request.headerFields[.authorization].flatMap(Self.token)
        request.headerFields[named: Self.field] = try await key.proof(
            for: request.method.rawValue,
            "\(Self.origin(of: request))\(request.path ?? "")", accessToken: token, nonce: nonce)
        return nonce
    }

    /// Keeps the nonce of a response.
    ///
    /// - Returns: The nonce, if the response has a valid one.
    @discardableResult
    package func keepNonce(of response: HTTPFields, to request: HTTPRequest) -> String? {
        guard let nonce = response[named: Self.nonceField], !nonce.isEmpty, nonce.isVisibleASCII,
            nonce.utf8.count <= Self.maximumNonceLength
        else { return nil }
        nonces.withLock { nonces in
            if nonces.count >= Self.maximumOrigins { nonces.removeAll() }
            nonces[Self.origin(of: request)] = nonce
        }
        return nonce
    }

    private static func origin(of request: HTTPRequest) -> String {
        "\(request.scheme ?? "")://\(request.authority ?? "")"
    }
}

extension HTTPFields {
    /// A field for which HTTPTypes has no constant.
    fileprivate subscript(named name: String) -> String? {
        get { HTTPField.Name(name).flatMap { self[$0] } }
        set { if let name = HTTPField.Name(name) { self[name] = newValue } }
    }
}

/// Why a request has no proof that the server accepts.
package enum DPoPFailure: Error, Sendable {
    /// The server requires a proof, and this client has no key.
    case noKey(ServerRefusal)
    /// The key to which the tokens are bound is missing, or this hardware cannot use it.
    case lostKey(CommonError?)
    /// The hardware did not sign.
    case hardware(CommonError)
    /// The server refused the proof, and this machine's clock is so many seconds ahead of the
    /// server's.
    case clock(ahead: Double, ServerRefusal)
    /// The server refused the proof.
    case refused(ServerRefusal)

    /// The difference of the clocks from which it may be the cause of a refusal, in seconds.
    private static let suspiciousDifference = 60.0

    /// - Returns: nil for an error that is not about the proof (RFC 9449 section 5).
    init?<Code>(_ response: ServerResponse<Code>, of prover: DPoPProver?) {
        guard response.refusesProof else { return nil }
        guard let prover else {
            self = .noKey(response.refusal)
            return
        }
        let ahead = response.date.map { prover.key.now().timeIntervalSince($0) } ?? 0
        self =
            if abs(ahead) > Self.suspiciousDifference {
                .clock(ahead: ahead, response.refusal)
            } else {
                .refused(response.refusal)
            }
    }

    /// The failure of a signature.
    package init(_ error: CommonError) {
        self =
            switch error.code {
            case .wrongDevice, .damaged, .notFound, .invalidated: .lostKey(error)
            default: .hardware(error)
            }
    }

    var refusal: ServerRefusal? {
        switch self {
        case .noKey(let refusal), .clock(_, let refusal), .refused(let refusal): refusal
        case .lostKey, .hardware: nil
        }
    }

    var underlying: UnderlyingError? {
        switch self {
        case .lostKey(let error): error?.underlying
        case .hardware(let error): error.underlying
        case .noKey, .clock, .refused: nil
        }
    }

    /// The cause, as a clause, and the next step, as a sentence.
    var explanation: (reason: String, recovery: Recovery) {
        switch self {
        case .noKey:
            (
                "the server binds tokens to a key in the hardware (DPoP), and this program has no such key",
                "Use hardware that signs without a prompt, for example a TPM, then log in again."
            )
        case .lostKey(let error):
            (
                "the hardware key to which the session is bound cannot be used"
                    + (error.map { ": \($0.reason)" } ?? ", because it is not stored"),
                Recovery("Log in again.", .login)
            )
        case .hardware(let error): (error.reason, error.recoveryAction)
        case .clock(let ahead, _):
            (
                "the server refused the proof of the session's key, and this machine's clock is "
                    + "\(Int(abs(ahead))) seconds \(ahead > 0 ? "ahead of" : "behind") the server's",
                "Set the clock (for example with ‘timedatectl set-ntp true’) and try again."
            )
        case .refused(let refusal):
            (
                "the server refused the proof of the session's key"
                    + (refusal.oauthError?.description.map { " (\($0))" } ?? ""),
                "Try again. If it happens again, show this text to the server's operator."
            )
        }
    }
}
