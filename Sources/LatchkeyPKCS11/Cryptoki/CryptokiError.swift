/// Why something with a module or a token gave no result.
///
/// Two errors are equal when their ``kind`` is equal.
package struct CryptokiError: Error, Sendable {
    /// What went wrong.
    package enum Kind: Hashable, Sendable {
        /// The module answered with a code other than `CKR_OK`.
        case returned(ReturnValue)
        /// What the module wrote contradicts the specification.
        case malformed
        /// The module lacks what is needed, and says so before it is tried.
        case unsupported
        /// The module can't be used at all.
        case module(ModuleFailure)
        /// The call did not come back within its deadline. From now on its module is ``wedged``.
        case timedOut
        /// An earlier call into the module never came back, so none is made any more in this process.
        case wedged
        /// The task that waited was cancelled.
        case cancelled
        /// No token matches, or the one that did is gone.
        case tokenAbsent
        /// There is no reader, which also is what a person sees whom polkit refuses.
        case noReaders
        /// More than one token matches.
        case tokenAmbiguous
        /// There is no such key, or not both of its halves.
        case keyAbsent
        /// More than one key matches.
        case keyAmbiguous
        /// Something is there already under that CKA_ID.
        case occupied
        /// Another process has the lock for the token.
        case locked
        /// No file for the token's lock can be opened.
        case lockUnavailable
        /// A login could not be ended on the card.
        case leftUnlocked
        /// The key that the token made is not what was asked for, or its signature doesn't verify.
        case unsound
        /// The token's user is not logged in (any more): ask for the PIN.
        case loginNeeded
        /// The token waited for a touch that never came. Inferred: modules have no code for it.
        case touchTimedOut
        /// The URI is none, or says what a URI must not say.
        case invalidURI
    }

    /// What happened.
    package let kind: Kind
    /// The Cryptoki function, for example `C_Sign`, where one was being called.
    package let function: String?
    /// A clause that says what happened.
    package let reason: String

    init(_ kind: Kind, function: String? = nil, reason: String) {
        self.kind = kind
        self.function = function
        self.reason = reason
    }

    init(_ value: ReturnValue, from function: String) {
        self.init(.returned(value), function: function, reason: "the module answered \(value)")
    }

    /// The module's answer, where it gave one.
    package var returnValue: ReturnValue? {
        if case .returned(let value) = kind { value } else { nil }
    }
}

extension CryptokiError: Equatable {
    package static func == (left: CryptokiError, right: CryptokiError) -> Bool { left.kind == right.kind }
}

extension CryptokiError: CustomStringConvertible {
    /// For example `C_Login: the module answered CKR_PIN_INCORRECT (0xa0)`.
    package var description: String { function.map { "\($0): \(reason)" } ?? reason }
}
