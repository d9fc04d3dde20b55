package import Latchkey

/// The members of a server's metadata that decide where secrets may go (RFC 8414 section 2, RFC 9207 section 3).
package struct IssuerMetadata: Hashable, Sendable {
    package let issuer: String
    /// Whether each authorization response names the issuer: `authorization_response_iss_parameter_supported`.
    package let sendsIssuer: Bool

    package init(issuer: String, sendsIssuer: Bool) {
        self.issuer = issuer
        self.sendsIssuer = sendsIssuer
    }

    /// Checks that the metadata belongs to the configured server (RFC 8414 section 3.3), and that none of its endpoints
    /// can get secrets of a login at another server.
    ///
    /// A malicious server can name an honest server's authorization endpoint and a token endpoint of its own: then it gets
    /// the honest server's code and its verifier (RFC 9207 section 1). The issuer in the authorization response prevents
    /// that; without it, all endpoints must have the issuer's origin or a configured one.
    ///
    /// - Parameters:
    ///   - address: The configured server.
    ///   - endpoints: The endpoints that get secrets.
    ///   - additionalOrigins: Other origins that the configuration lists.
    package func check(
        at address: Endpoint, secretsGoTo endpoints: [Endpoint], additionalOrigins: Set<String>
    ) throws(MetadataFlaw) {
        let text = address.path == "/" ? address.origin : address.text
        guard issuer == text || issuer == text + "/" || issuer + "/" == text else {
            throw .issuer(issuer, expected: text)
        }
        try check(secretsGoTo: endpoints, additionalOrigins: additionalOrigins)
    }

    /// The second part of ``check(at:secretsGoTo:additionalOrigins:)``.
    package func check(secretsGoTo endpoints: [Endpoint], additionalOrigins: Set<String>) throws(MetadataFlaw) {
        guard !sendsIssuer else { return }
        let trusted = Set(([issuer] + additionalOrigins).compactMap { Endpoint($0)?.canonicalOrigin })
        if let stranger = endpoints.map(\.canonicalOrigin).first(where: { !trusted.contains($0) }) {
            throw .origin(stranger, issuer: issuer)
        }
    }
}

extension Endpoint {
    /// The origin without the scheme's default port.
    package var canonicalOrigin: String {
        let port = scheme == "https" ? ":443" : ":80"
        return origin.hasSuffix(port) ? String(origin.dropLast(port.count)) : origin
    }
}
