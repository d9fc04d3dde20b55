/// How a handle's use is authorized in one command.
///
/// There is no way to send a secret as a password: it would go over the bus in the clear.
public enum Authorization {
    /// The entity has no authValue.
    case emptyPassword
    /// A session proves knowledge of `authValue`, or has satisfied the entity's policy.
    case session(Session, authValue: AuthValue, attributes: SessionAttributes)

    /// A session that stays after the command.
    public static func continuing(
        _ session: Session, authValue: AuthValue = .empty, protecting attributes: SessionAttributes = []
    ) -> Authorization {
        .session(session, authValue: authValue, attributes: attributes.union(.continueSession))
    }

    /// A session that ends with the command when it succeeds; that saves a `FlushContext`.
    public static func lastUse(
        of session: Session, authValue: AuthValue = .empty, protecting attributes: SessionAttributes = []
    ) -> Authorization {
        .session(session, authValue: authValue, attributes: attributes.subtracting(.continueSession))
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

    /// As sent. A password "session" is always continued.
    var attributes: SessionAttributes {
        switch self {
        case .emptyPassword: .continueSession
        case .session(_, _, let attributes): attributes
        }
    }
}
