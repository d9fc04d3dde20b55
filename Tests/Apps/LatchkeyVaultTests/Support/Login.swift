/// The credentials in the tests' vaults.
struct Login: Codable, Sendable, Equatable {
    var username: String
    var accessToken: String

    static let jane = Login(username: "jane", accessToken: "canary-1")
    static let june = Login(username: "june", accessToken: "canary-2")
}
