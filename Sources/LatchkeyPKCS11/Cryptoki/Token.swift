internal import FoundationEssentials

/// One token: found once by its URI, then known by manufacturer, model, serial and label.
///
/// All work goes through ``perform(_:)``, which runs it on the token's own thread with the one session that is kept
/// open, and climbs the recovery ladder when the session or the token is lost.
final class Token: Sendable {
    /// The module that the token was found in.
    let module: Module
    /// What the token said of itself when it was found. ``Session/tokenInformation()`` says what holds now.
    let information: TokenInformation
    /// A URI that names this token and no other: `pkcs11:…?module-path=…`.
    let uri: TokenURI

    /// Finds the one token that fits a URI, in the module that the URI names, or in all that p11-kit is configured with.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `noReaders`, `tokenAmbiguous` (the reason names both with serials),
    ///   `module`, `timedOut`, `wedged`, `cancelled`.
    static func find(_ uri: TokenURI, options: TokenOptions = TokenOptions()) async throws(CryptokiError) -> Token {
        throw CryptokiError(.tokenAbsent, reason: "no token is \(uri)")
    }

    init(module: Module, information: TokenInformation, uri: TokenURI) {
        self.module = module
        self.information = information
        self.uri = uri
    }

    var profile: ModuleProfile { module.profile }

    /// Runs `body` on the token's thread.
    ///
    /// When a call in it fails because session, handles or token were lost, the ladder of section 7.3 is climbed and
    /// `body` runs **again from its start**: it must be a whole operation that may be repeated (log in, find, sign),
    /// and keep no handle from an earlier run. A wrong PIN never makes it run again.
    ///
    /// - Throws: ``CryptokiError``, what `body` throws or what ended the ladder: `tokenAbsent`, `timedOut`, `wedged`,
    ///   `loginNeeded` (log in again and repeat), `cancelled`.
    func perform<R: Sendable>(
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        throw CryptokiError(.tokenAbsent, reason: "the token is gone")
    }
}
