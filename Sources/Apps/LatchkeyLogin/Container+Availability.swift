public import FoundationEssentials
public import Latchkey

extension Container {
    /// Whether a key can be made and used on this machine now, and if not, why. Does not prompt.
    ///
    /// - Parameter policy: The policy of the key; nil for the configured one.
    public func biometricAvailability(under policy: AccessPolicy? = nil) async
        -> BiometricAvailability
    {
        do throws(KeystoreError) {
            let capabilities = try await keystore.capabilities()
            let wanted =
                if let policy = policy ?? configuration.policy { policy } else {
                    await capabilities.preferredPolicy(for: .signing, through: presence)
                }
            guard capabilities.requirements.contains(wanted.requirement) else {
                return .notAvailable("the hardware can't enforce the policy ‘\(wanted)’")
            }
            switch wanted.requirement {
            case .none:
                return .notAvailable("biometric login needs a policy with user verification")
            case .pin: return try await pinAvailability()
            case .biometryAny, .biometryCurrentSet: return await fingerAvailability(capabilities)
            case .userPresence:
                // A new key needs a finger. An existing one accepts a finger or the PIN.
                let finger = await fingerAvailability(capabilities)
                if case .lockedOut = finger { return try await pinAvailability() }
                return finger
            }
        } catch {
            return error.code == .passcodeNotSet ? .passcodeNotSet : .notAvailable(error.reason)
        }
    }

    /// Whether a key with the configured policy can be made and used on this machine now. Does not
    /// prompt.
    public func isBiometricAvailable() async -> Bool { await biometricAvailability() == .available }

    private func fingerAvailability(_ capabilities: KeystoreCapabilities) async
        -> BiometricAvailability
    {
        switch await capabilities.fingerState(through: presence) {
        case .ready: .available
        case .notAvailable(let why): .notAvailable(why)
        case .notEnrolled: .notEnrolled
        case .lockedOut(let until): .lockedOut(until: until)
        }
    }

    private func pinAvailability() async throws(KeystoreError) -> BiometricAvailability {
        let status = try await keystore.pinStatus()
        return status.isLockedOut ? .lockedOut(until: status.lockedOutUntil) : .available
    }
}

/// Whether biometric login can be used on this machine now, and if not, why. Corresponds to
/// `LAContext` on iOS.
public enum BiometricAvailability: Hashable, Sendable {
    /// It can be enabled.
    case available
    /// Hardware or the presence broker is missing. The text names it.
    case notAvailable(String)
    /// The user has no enrolled finger.
    case notEnrolled
    /// Too many failed attempts. The date is when the next attempt is possible, if known.
    case lockedOut(until: Date?)
    /// The policy is a PIN on a token, and the token has no PIN.
    case passcodeNotSet
}
