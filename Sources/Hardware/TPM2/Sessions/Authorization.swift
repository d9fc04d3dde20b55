internal import Crypto

/// The authorization of one handle in one command.
///
/// A secret cannot be sent as a password, because it would cross the bus in plain text.
package enum Authorization {
    /// The empty password, for an entity without an authValue.
    case emptyPassword
    /// A session that proves knowledge of `authValue`, or that satisfied the entity's policy.
    case session(Session, authValue: AuthValue, attributes: SessionAttributes)

    /// Authorizes with a session that stays open after the command.
    package static func continuing(
        _ session: Session, authValue: AuthValue = .empty,
        protecting attributes: SessionAttributes = []
    ) -> Authorization {
        .session(session, authValue: authValue, attributes: attributes.union(.continueSession))
    }

    /// Authorizes with a session that the TPM closes when the command succeeds. Saves a
    /// `FlushContext`.
    package static func lastUse(
        of session: Session, authValue: AuthValue = .empty,
        protecting attributes: SessionAttributes = []
    ) -> Authorization {
        .session(
            session, authValue: authValue, attributes: attributes.subtracting(.continueSession))
    }

    var handle: TPMHandle {
        switch self {
        case .emptyPassword: .passwordSession
        case .session(let session, _, _): session.handle
        }
    }

    var session: Session? {
        if case .session(let session, _, _) = self { session } else { nil }
    }

    /// The attributes as sent. A password session always has `continueSession`.
    var attributes: SessionAttributes {
        switch self {
        case .emptyPassword: .continueSession
        case .session(_, _, let attributes): attributes
        }
    }

    /// The secret that the session proves.
    var authValue: AuthValue {
        if case .session(_, let authValue, _) = self { authValue } else { .empty }
    }
}

/// The secret that authorizes an entity: at most 32 bytes, without trailing zeros.
///
/// A TPM removes trailing zeros before it compares an authValue or uses it as an HMAC key (TPM 2.0
/// Part 1 section "authValue"), so this type removes them too: one hashed PIN in 256 ends in a
/// zero. The bytes are erased with the last copy.
package struct AuthValue: Sendable {
    let key: SymmetricKey

    /// The empty secret, which a new entity has by default.
    package static let empty = AuthValue(unchecked: SymmetricKey(data: [UInt8]()))

    /// Copies the bytes without trailing zeros.
    ///
    /// - Returns: nil when more than 32 bytes remain.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        let count = (bytes.lastIndex { $0 != 0 } ?? -1) + 1
        guard count <= 32 else { return nil }
        key = SymmetricKey(data: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    private init(unchecked key: SymmetricKey) {
        self.key = key
    }

    /// The number of bytes, without trailing zeros.
    package var count: Int { key.byteCount }
}

extension AuthValue: TPMMarshallable {
    package func marshal(into writer: inout TPMWriter) {
        key.withUnsafeBytes { writer.writeSized($0) }
    }
}

/// The content of a sealed object or index, or an HMAC. The bytes are erased with the last copy.
package struct SensitiveData: Sendable {
    private let key: SymmetricKey

    /// Copies the bytes.
    package init(_ bytes: UnsafeRawBufferPointer) { key = SymmetricKey(data: bytes) }

    /// Copies bytes that are not secret, or that the caller erases.
    package init(_ bytes: [UInt8] = []) { key = SymmetricKey(data: bytes) }

    /// The number of bytes.
    package var count: Int { key.byteCount }
    /// The bytes, for content that is not secret.
    package var bytes: [UInt8] { key.withUnsafeBytes(Array.init) }

    /// Lends the bytes.
    package func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        key.withUnsafeBytes(body)
    }
}

extension SensitiveData: TPMMarshallable {
    package func marshal(into writer: inout TPMWriter) {
        key.withUnsafeBytes { writer.writeSized($0) }
    }
}

extension AuthValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "‹authValue›" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The role of a session in one command, `TPMA_SESSION` (TPM 2.0 Part 2 section 8.4).
package struct SessionAttributes: OptionSet, TPMNumber, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The session stays open after the command. Otherwise the TPM flushes it when the command
    /// succeeds.
    package static let continueSession = SessionAttributes(rawValue: 1 << 0)
    /// The first parameter of the command is encrypted.
    package static let decrypt = SessionAttributes(rawValue: 1 << 5)
    /// The first parameter of the response is encrypted.
    package static let encrypt = SessionAttributes(rawValue: 1 << 6)
    /// The session audits the command, so its HMAC authenticates the response.
    package static let audit = SessionAttributes(rawValue: 1 << 7)
}
