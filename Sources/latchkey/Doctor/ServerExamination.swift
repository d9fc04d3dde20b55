import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyHTTP

/// Looks whether the identity server answers, and what it offers. Nobody is logged in.
struct ServerExamination {
    /// How many seconds it may take.
    private static let patience = 5

    let settings: Settings

    func check() async -> Check {
        let name = "server"
        guard let text = settings.endpoint, settings.clientID != nil else {
            return .warning(
                name, "No identity server is configured; keys can be used, logins can't.",
                "Give --endpoint and --client-id, or put both into the configuration file.")
        }
        guard let endpoint = Endpoint(text) else {
            return .warning(
                name, "The endpoint ‘\(text)’ is neither an https address nor on this machine.",
                "Correct --endpoint, LATCHKEY_ENDPOINT or the configuration file.")
        }
        let request = endpoint.appending("/.well-known/openid-configuration").request(.get)
        do throws(KeystoreError) {
            let (response, body) = try await AsyncHTTPTransport(timeout: Self.patience).send(request, body: [])
            guard response.status.code == 200, let offer = try? JSONDecoder().decode(Offer.self, from: Data(body))
            else {
                return .warning(
                    name, "At \(text) something answers that is no identity server.",
                    "Check the address, and what stands between you and it.")
            }
            let locker = offer.locker == nil ? "and no locker" : "and the locker"
            return .ok(name, "The identity server \(text) answers; it offers logins \(locker).")
        } catch {
            return .warning(name, "The identity server \(text) can't be reached: \(error.reason).", error.recovery)
        }
    }

    private struct Offer: Decodable {
        let issuer: String
        let locker: String?

        private enum CodingKeys: String, CodingKey {
            case issuer
            case locker = "locker_enrolment_endpoint"
        }
    }
}
