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

    func session(generation: Int) -> Session {
        Session(
            userID: userID, refreshToken: SecretBytes(refreshToken.utf8), idToken: idToken, generation: generation)
    }
}
