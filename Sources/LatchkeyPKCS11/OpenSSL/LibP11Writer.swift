internal import Latchkey

/// Writes to a token with libp11, in a context of its own, while the token's thread, on which this is used, waits.
///
/// From ``init(_:on:within:)`` to ``end()`` it is in the token's ``Token/performAlone(_:)``: both close all sessions.
struct LibP11Writer {
    /// Used by one thread at a time, since the token's waits for each of those that are made for libp11.
    private struct Lent: @unchecked Sendable {
        let token: LibP11Token
    }

    private let operation: String
    private let token: Token
    private let limit: Duration
    private let lent: Lent

    /// Has libp11 find the token and begin to write. Who is logged in is logged out by that: log in after it.
    init(_ operation: String, on token: Token, within limit: Duration) throws(CryptokiError) {
        self.operation = operation
        self.token = token
        self.limit = limit
        let (path, information) = (token.module.path, token.information)
        LibP11Contexts.shared.abandon(token)
        lent = try LibP11Thread.run(operation, in: token.module, within: limit) {
            Result { () throws(CryptokiError) in
                let token = try LibP11Context(modulePath: path).token(information)
                try token.beginWriting()
                return Lent(token: token)
            }
        }
    }

    func write<R: Sendable>(
        _ body: @escaping @Sendable (LibP11Token) throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        try LibP11Thread.run(operation, in: token.module, within: limit) { [lent] in
            Result { () throws(CryptokiError) in try body(lent.token) }
        }
    }

    /// Logs out and closes all sessions.
    func end() {
        _ = try? LibP11Thread.run(operation, in: token.module, within: limit) { [lent] in
            .success(lent.token.endWriting())
        }
    }
}
