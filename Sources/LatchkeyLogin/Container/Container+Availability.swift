internal import FoundationEssentials
public import Latchkey

extension Container {
    /// Whether a key with the configured policy can be made and used on this machine now, and if not, why. Shows nothing.
    ///
    /// - Parameter policy: Nil for the configured one.
    public func biometricAvailability(under policy: AccessPolicy? = nil) async -> BiometricAvailability {
        let capabilities: KeystoreCapabilities
        do throws(KeystoreError) {
            capabilities = try await keystore.capabilities()
        } catch {
            return error.code == .passcodeNotSet ? .passcodeNotSet : .notAvailable(error.reason)
        }
        let wanted =
            if let policy = policy ?? configuration.policy { policy } else {
                await capabilities.preferredPolicy(for: .signing, through: presence)
            }
        guard capabilities.requirements.contains(wanted.requirement) else {
            return .notAvailable("the hardware can't enforce the policy ‘\(wanted)’")
        }
        switch wanted.requirement {
        case .none: return .available
        case .pin: return await pinAvailability()
        case .biometryAny, .biometryCurrentSet: return await fingerAvailability(capabilities)
        case .userPresence:
            // What is new needs the finger; what is there may be opened by either.
            let finger = await fingerAvailability(capabilities)
            if case .lockedOut = finger { return await pinAvailability() }
            return finger
        }
    }

    /// Whether a key with the configured policy can be made and used on this machine now. Shows nothing.
    public func isBiometricAvailable() async -> Bool { await biometricAvailability() == .available }

    /// The configured policy, or what fits this machine now.
    func preferredPolicy() async -> AccessPolicy {
        if let policy = configuration.policy { return policy }
        return await keystore.preferredPolicy(for: .signing, through: presence)
    }

    private func fingerAvailability(_ capabilities: KeystoreCapabilities) async -> BiometricAvailability {
        switch await capabilities.fingerState(through: presence) {
        case .ready: .available
        case .notAvailable(let why): .notAvailable(why)
        case .notEnrolled: .notEnrolled
        case .lockedOut(let until): .lockedOut(until: until)
        }
    }

    private func pinAvailability() async -> BiometricAvailability {
        do throws(KeystoreError) {
            let status = try await keystore.pinStatus()
            return status.isLockedOut ? .lockedOut(until: status.lockedOutUntil) : .available
        } catch {
            return error.code == .passcodeNotSet ? .passcodeNotSet : .notAvailable(error.reason)
        }
    }
}
