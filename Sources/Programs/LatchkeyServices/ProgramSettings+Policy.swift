package import Latchkey

/// The minimum policy: a rule of this machine, or of the user, for new keys and secrets.
extension ProgramSettings {
    /// Refuses a policy that does not meet the minimum.
    ///
    /// - Parameter recovery: The next step; nil to name the policies that meet it.
    /// - Throws: ``KeystoreError`` with code `invalidInput`, as for each contradiction of the
    ///   settings.
    package func check(_ policy: AccessPolicy, recovery: Recovery? = nil) throws(KeystoreError) {
        guard !policy.requirement.meets(minimumPolicy) else { return }
        let names = AccessPolicy.Requirement.allCases.filter { $0.meets(minimumPolicy) }
            .map(\.rawValue)
        throw KeystoreError(
            code: .invalidInput,
            reason: "the policy ‘\(policy.requirement.rawValue)’ does not meet the minimum policy "
                + "‘\(minimumPolicy.rawValue)’ of \(values.place(of: .minimumPolicy) ?? "")",
            recovery: recovery ?? "Use --policy \(names.joined(separator: ", or --policy ")).")
    }

    /// The policy of a new key or secret that requires user verification, which meets the minimum.
    ///
    /// - Parameter chosen: The policy that the user chose; nil for the default.
    /// - Returns: nil for the default: a finger or the PIN, or the PIN alone.
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package func policy(_ chosen: AccessPolicy?) throws(KeystoreError) -> AccessPolicy? {
        if let chosen {
            try check(chosen)
            return chosen
        }
        return AccessPolicy.Requirement.userPresence.meets(minimumPolicy)
            ? nil : AccessPolicy(minimumPolicy)
    }

    /// Whether secrets without user verification do not meet the minimum.
    package var requiresVerification: Bool {
        !AccessPolicy.Requirement.none.meets(minimumPolicy)
    }
}
