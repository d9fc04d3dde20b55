internal import Latchkey

/// A key on its way to the server.
struct Enrolment: Sendable {
    let made: PreparedKey
    let userID: String
    /// An ID token of the user.
    let idToken: String?
    /// The enabled key that gives way.
    let standing: BiometricKey?
    /// A key whose registration was begun earlier and never ended.
    let abandoned: BiometricKey?
    let server: IdentityServer
    let prompt: PromptContext

    var key: HardwareKey { made.key }
}
