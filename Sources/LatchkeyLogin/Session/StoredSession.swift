internal import FoundationEssentials
internal import Latchkey

/// A session as it is stored, encrypted, in its row.
struct StoredSession: Codable {
    let userID: String
    let refreshToken: String
    let idToken: String?

    init(_ session: Session) {
        userID = session.userID
        refreshToken = session.refreshToken.text
        idToken = session.idToken
    }

    /// - Returns: nil for a payload that can't be read.
    init?(_ payload: SecretBytes) {
        let stored = payload.withUnsafeBytes { try? JSONDecoder().decode(StoredSession.self, from: Data($0)) }
        guard let stored else { return nil }
        self = stored
    }

    func session(generation: Int) -> Session {
        Session(
            userID: userID, refreshToken: SecretBytes(refreshToken.utf8), idToken: idToken, generation: generation)
    }
}
