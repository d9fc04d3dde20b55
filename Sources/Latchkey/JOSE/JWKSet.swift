/// The server's keys (RFC 7517 section 5).
package struct JWKSet: Decodable, Sendable {
    package let keys: [JWK]

    private enum CodingKeys: String, CodingKey {
        case keys
    }

    package init(keys: [JWK]) {
        self.keys = keys
    }

    /// Keys of kinds that are not understood are left out (RFC 7517 section 5).
    package init(from decoder: any Decoder) throws {
        keys = try decoder.container(keyedBy: CodingKeys.self).decode([Entry].self, forKey: .keys).compactMap(\.key)
    }

    private struct Entry: Decodable {
        let key: JWK?

        init(from decoder: any Decoder) throws {
            key = try? JWK(from: decoder)
        }
    }

    /// The keys that may have made a signature with this algorithm and key id.
    func candidates(alg: String, kid: String?) -> [JWK] {
        keys.filter { key in
            key.use ?? "sig" == "sig" && key.alg ?? alg == alg && (kid == nil || key.kid == kid)
        }
    }
}
