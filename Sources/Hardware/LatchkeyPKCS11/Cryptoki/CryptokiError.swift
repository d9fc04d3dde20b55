/// An error of a module or a token.
///
/// Two errors are equal if their ``kind`` is equal.
package struct CryptokiError: Error, Sendable {
    /// The kind of error.
    package enum Kind: Hashable, Sendable {
        /// The module answered with a code other than `CKR_OK`.
        case returned(ReturnValue)
        /// The module's answer violates the specification.
        case malformed
        /// The module or token does not support the operation.
        case unsupported
        /// The module can't be used at all.
        case module(ModuleFailure)
        /// The call did not return within its deadline. From now on its module is ``unresponsive``.
        case timedOut
        /// An earlier call into the module never returned, so that it is not called again in this
        /// process.
        case unresponsive
        /// The task that waited was cancelled.
        case cancelled
        /// No token matches, or the token was removed.
        case tokenAbsent
        /// The only token that matches is not initialized.
        case uninitialized
        /// There is no reader, or polkit does not let this user see one.
        case noReaders
        /// More than one token matches.
        case tokenAmbiguous
        /// There is no such key, or one of its halves is missing.
        case keyAbsent
        /// More than one key matches.
        case keyAmbiguous
        /// The key is of another type than P-256.
        case otherKeyType
        /// The `CKA_ID` is in use.
        case occupied
        /// Another process has the lock for the token.
        case locked
        /// The file of the token's lock can't be used.
        case lockUnavailable
        /// A login could not be ended on the card.
        case leftUnlocked
        /// The token's key does not have the requested protection, or its signature does not
        /// verify.
        case unsound
        /// The user is not logged in: prompt for the PIN.
        case loginNeeded
        /// The user did not touch the token in time. Inferred: modules have no code for it.
        case touchTimedOut
        /// The URI is not valid, or contains a refused attribute.
        case invalidURI
    }

    package let kind: Kind
    /// The Cryptoki function, for example `C_Sign`, if one was being called.
    package let function: String?
    /// The cause, as a clause.
    package let reason: String
    /// The user's next step if it is not the usual one of ``kind``.
    let recovery: String?

    init(_ kind: Kind, function: String? = nil, reason: String, recovery: String? = nil) {
        self.kind = kind
        self.function = function
        self.reason = reason
        self.recovery = recovery
    }

    init(_ value: ReturnValue, from function: String) {
        self.init(.returned(value), function: function, reason: "the module answered \(value)")
    }

    /// The module's answer, if it gave one.
    package var returnValue: ReturnValue? {
        if case .returned(let value) = kind { value } else { nil }
    }
}

extension CryptokiError: Equatable {
    package static func == (left: CryptokiError, right: CryptokiError) -> Bool {
        left.kind == right.kind
    }
}

extension CryptokiError: CustomStringConvertible {
    /// For example `C_Login: the module answered CKR_PIN_INCORRECT (0xa0)`.
    package var description: String { function.map { "\($0): \(reason)" } ?? reason }
}

/// Why a module can't be used at all.
package enum ModuleFailure: Hashable, Sendable {
    /// There is no such file.
    case missing
    /// The file is not a PKCS#11 module: no shared object, or one without `C_GetFunctionList`.
    case notAModule
    /// The file is a shared object for another processor.
    case wrongArchitecture
    /// Other users can change the file, which would run with this program's rights and see PINs.
    case writableByOthers
    /// The file is p11-kit's proxy for all configured modules.
    case proxy
    /// The dynamic loader refuses the file, for example because a library is missing.
    case unloadable
    /// `C_Initialize` answered with this code.
    case initializeFailed(ReturnValue)
    /// Loading or `C_Initialize` did not return.
    case hanging
    /// The separate process for it could not be started.
    case notIsolated
}
