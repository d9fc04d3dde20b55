extension AccessPolicy {
    /// Whether the PIN is one of the ways to satisfy the policy.
    package var hasPIN: Bool {
        switch requirement {
        case .pin, .userPresence: true
        case .none, .biometryAny, .biometryCurrentSet: false
        }
    }

    /// Whether a finger is one of the ways to satisfy the policy.
    package var hasFinger: Bool {
        switch requirement {
        case .userPresence, .biometryAny, .biometryCurrentSet: true
        case .none, .pin: false
        }
    }
}
