internal import FoundationEssentials
package import Latchkey

extension PresenceWire {
    package static func arguments(_ terms: PresenceTerms) -> [BusValue] {
        var entries: [String: BusValue] = ["User": .uint32(terms.user), "Authority": .bytes(Array(terms.authority))]
        entries["AuthorityHandle"] = terms.authorityHandle.map(BusValue.uint32)
        entries["EnrolmentSet"] = terms.enrolmentSet.map { .bytes(Array($0)) }
        if let counter = terms.counter {
            entries["Counter"] = .bytes(Array(counter.publicArea))
            entries["CounterValue"] = .uint64(counter.value)
        }
        if let pin = terms.userPIN {
            entries["PIN"] = .bytes(Array(pin.publicArea))
            entries["PINResetPolicy"] = .bytes(Array(pin.resetPolicy))
        }
        return [.dictionary(entries)]
    }

    static func terms(_ arguments: [BusValue]) -> PresenceTerms? {
        guard let entries = arguments.first?.dictionary, let user = entries["User"]?.uint32,
            let authority = entries["Authority"]?.bytes
        else { return nil }
        var terms = PresenceTerms(
            user: user, authority: Data(authority), authorityHandle: entries["AuthorityHandle"]?.uint32,
            enrolmentSet: entries["EnrolmentSet"]?.bytes.map { Data($0) })
        if let counter = entries["Counter"]?.bytes, let value = entries["CounterValue"]?.uint64 {
            terms.counter = .init(publicArea: Data(counter), value: value)
        }
        terms.userPIN = pin(entries["PIN"], entries["PINResetPolicy"])
        return terms
    }

    package static func arguments(_ pin: UnsetUserPIN) -> [BusValue] {
        [
            .bytes(Array(pin.pin.publicArea)), .bytes(Array(pin.pin.resetPolicy)),
            .bytes(pin.initialValue.withUnsafeBytes { Array($0) }),
        ]
    }

    static func unsetPIN(_ arguments: [BusValue]) -> UnsetUserPIN? {
        guard arguments.count == 3, let pin = pin(arguments[0], arguments[1]), let initial = arguments[2].bytes else {
            return nil
        }
        return UnsetUserPIN(pin: pin, initialValue: SecretBytes(initial))
    }

    private static func pin(_ publicArea: BusValue?, _ resetPolicy: BusValue?) -> PresenceTerms.UserPIN? {
        guard let area = publicArea?.bytes, let policy = resetPolicy?.bytes else { return nil }
        return PresenceTerms.UserPIN(publicArea: Data(area), resetPolicy: Data(policy))
    }

    // MARK: A policy

    package static func arguments(_ policy: AccessPolicy) -> [BusValue] {
        [.string(policy.requirement.rawValue), .uint32(UInt32(policy.reuseSeconds))]
    }

    package static func policy(_ arguments: some Collection<BusValue>) -> AccessPolicy? {
        let arguments = Array(arguments)
        guard arguments.count == 2, let requirement = arguments[0].string.flatMap(AccessPolicy.Requirement.init),
            let reuse = arguments[1].uint32
        else { return nil }
        return AccessPolicy(requirement, reuseSeconds: Int(reuse))
    }
}
