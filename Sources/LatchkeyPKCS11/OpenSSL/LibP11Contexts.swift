internal import Synchronization

/// The libp11 contexts of this process, one for each token that OpenSSL uses, kept for as long as they are sound.
///
/// A context knows the slots and sessions of one epoch of its module. When the module has been initialised anew, or the
/// token was pulled, the context is abandoned and the next use makes another one.
final class LibP11Contexts: Sendable {
    static let shared = LibP11Contexts()

    private struct Key: Hashable {
        let path: String
        let identity: TokenIdentity

        init(_ token: Token) {
            path = token.module.path
            identity = TokenIdentity(token.information, in: token.profile)
        }
    }

    private struct Entry {
        let epoch: Int
        let context: KeptContext
    }

    /// A context is used by one thread at a time: all that is done with it is done while its token's thread waits.
    private struct KeptContext: @unchecked Sendable {
        let value: LibP11Context
    }

    private let entries = Mutex<[Key: Entry]>([:])

    private init() {}

    /// The token in its context, which is made where there is none. On a thread for libp11, while the token's own waits.
    func token(_ token: Token) throws(CryptokiError) -> LibP11Token {
        let key = Key(token)
        let epoch = token.module.epoch
        if let entry = entries.withLock({ $0[key] }), entry.epoch == epoch {
            return try entry.context.value.token(token.information)
        }
        let context = KeptContext(value: try LibP11Context(modulePath: token.module.path))
        entries.withLock { $0[key] = Entry(epoch: epoch, context: context) }
        return try context.value.token(token.information)
    }

    /// Forgets the token's context, and leaves it as it is.
    func abandon(_ token: Token) {
        entries.withLock { _ = $0.removeValue(forKey: Key(token)) }
    }
}
