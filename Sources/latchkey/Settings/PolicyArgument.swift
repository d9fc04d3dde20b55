import ArgumentParser
import Latchkey

/// A policy as `--policy` names it: `none`, `pin`, `user-presence`, `biometry-any` or `biometry-current-set`.
struct PolicyArgument: ExpressibleByArgument {
    let policy: AccessPolicy

    init?(argument: String) {
        guard let requirement = AccessPolicy.Requirement(rawValue: argument), let policy = AccessPolicy(requirement)
        else { return nil }
        self.policy = policy
    }

    init(_ policy: AccessPolicy) { self.policy = policy }

    var defaultValueDescription: String { policy.description }

    static let allValueStrings = AccessPolicy.Requirement.allCases.map(\.rawValue)
}

/// A policy for biometric login: whoever logs in must be there, so `none` is none.
struct LoginPolicyArgument: ExpressibleByArgument {
    let policy: AccessPolicy

    init?(argument: String) {
        guard let policy = PolicyArgument(argument: argument)?.policy, policy != .none else { return nil }
        self.policy = policy
    }

    init(_ policy: AccessPolicy) { self.policy = policy }

    var defaultValueDescription: String { policy.description }

    static let allValueStrings = PolicyArgument.allValueStrings.filter { $0 != AccessPolicy.none.description }
}
