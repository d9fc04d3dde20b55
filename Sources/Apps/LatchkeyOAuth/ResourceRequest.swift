package import HTTPTypes
package import Latchkey

/// A request of an app to one of its own servers, which gets the session's access token: the only
/// place that adds one to such a request.
package struct ResourceRequest<Code: OAuthErrorCode>: Sendable {
    private let request: HTTPRequest

    /// Checks the address. Call it before anything that prompts or needs the network.
    ///
    /// - Throws: ``OAuthFailure/invalidAddress(_:)`` for a request that goes neither over `https` nor
    ///   to this machine.
    package init(_ request: HTTPRequest) throws(LatchkeyError<Code>) {
        let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        guard Endpoint(url) != nil else {
            // A query can have a secret.
            let shown = String(oneLine: url.prefix { $0 != "?" }, limit: 256)
            throw LatchkeyError(.invalidAddress(shown))
        }
        self.request = request
    }

    /// The request with the field `Authorization`, and the field `DPoP` if its token is bound.
    ///
    /// - Parameters:
    ///   - authorization: The value of the field `Authorization`.
    ///   - prover: The prover of the token's key; not used for a token that is not bound.
    ///   - nonce: The latest `DPoP-Nonce` of the server; nil for the latest one that is known.
    /// - Throws: ``OAuthFailure/proof(_:)``, also for a bound token without a prover.
    package func authorized(
        by authorization: String, with prover: DPoPProver?, nonce: String?
    ) async throws(LatchkeyError<Code>) -> HTTPRequest {
        var request = request
        request.headerFields[.authorization] = authorization
        guard DPoPProver.token(in: authorization) != nil else { return request }
        guard let prover else { throw LatchkeyError(.proof(.lostKey(nil))) }
        do throws(CommonError) {
            try await prover.addProof(to: &request, nonce: nonce)
        } catch {
            throw LatchkeyError(.proof(DPoPFailure(error)))
        }
        return request
    }
}
