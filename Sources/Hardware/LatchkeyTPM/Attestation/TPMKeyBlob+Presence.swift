internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeyBlob {
    /// The branches of the key's policy, as a server recomputes them.
    func presenceStatement(under policy: AccessPolicy) -> PresenceStatement {
        var branches: [PresenceStatement.Branch] = []
        let reuse = UInt16(policy.reuseSeconds)
        if let finger = protection.finger {
            branches.append(
                .signed(
                    PresenceStatement.Signed(
                        key: Data(finger.authority.marshalled), user: finger.user,
                        requirement: policy.requirement.rawValue, reuse: reuse,
                        set: finger.enrolmentSet.map { Data($0) },
                        counter: finger.counter.map { counter in
                            PresenceStatement.Counter(
                                index: Data(counter.index.publicArea.marshalled),
                                value: counter.value)
                        })))
        }
        if let pin = protection.userPIN {
            branches.append(
                .pin(
                    PresenceStatement.UserPIN(
                        index: Data(pin.index.publicArea.marshalled),
                        reset: Data(pin.resetPolicy.bytes), reuse: reuse))
            )
        }
        return PresenceStatement(
            branches: branches, endsWithAuthValue: protection.authValue != nil)
    }
}

extension PresenceStatement {
    /// Adds the TPM's statement about the counter of enrolled fingers.
    mutating func certify(_ statement: Data, signature: Data) {
        branches = branches.map { branch in
            guard case .signed(var signed) = branch else { return branch }
            signed.counter?.certInfo = statement
            signed.counter?.signature = signature
            return .signed(signed)
        }
    }
}
