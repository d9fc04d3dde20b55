internal import FoundationEssentials
package import Latchkey

/// The D-Bus interface `org.latchkey.Presence1`: names, arguments and errors, for the client and
/// the service.
package enum PresenceWire {
    package static let name = "org.latchkey.Presence1"
    package static let path = "/org/latchkey/Presence1"
    package static let interface = "org.latchkey.Presence1"
    package static let version: UInt32 = 1
    private static let errorPrefix = "org.latchkey.Presence1.Error."
    /// The maximum length of a text of the service, in Unicode scalars. The service's texts are
    /// shorter.
    private static let longestText = 1000

    package enum Method: String, CaseIterable, Sendable {
        case state = "State"
        case terms = "Terms"
        case approve = "Approve"
        case approveSeveral = "ApproveSeveral"
        case complete = "Complete"
        case evaluate = "Evaluate"
        case cancel = "Cancel"
        case makePIN = "MakePIN"
        case resetPIN = "ResetPIN"
        case certifyKey = "CertifyKey"
        case users = "Users"
        case forget = "Forget"
        case subscribe = "Subscribe"
    }

    /// The signal that reports the progress to the caller, and to subscribers of the same user.
    package static let progress = "Progress"

    /// Only signals of the owner of the service's name are accepted, and only the service's user
    /// can own the name.
    static let progressRule = SignalRule(
        from: name, path: path, interface: interface, member: progress)

    static func prompt(_ arguments: [BusValue]) -> PresencePrompt? {
        guard arguments.count == 2, let progress = arguments[0].string.flatMap(FingerProgress.init),
            let text = arguments[1].string
        else { return nil }
        return PresencePrompt(progress: progress, text: String(oneLine: text, limit: longestText))
    }

    package static func target(_ method: Method) -> BusTarget {
        BusTarget(name, path, interface, method.rawValue)
    }

    // MARK: Errors

    /// The errors that are answers: not an approval and not a failure.
    package static let notRecognised = BusError(
        name: errorPrefix + "NotRecognised", message: "the finger does not match")

    package static func declined(_ why: String) -> BusError {
        BusError(name: errorPrefix + "Declined", message: why)
    }

    /// The lines of the message are the reason, the recovery and the names of its actions.
    package static func error(_ error: KeystoreError) -> BusError {
        let actions = error.recoveryAction.actions.map(\.rawValue).joined(separator: " ")
        return BusError(
            name: errorPrefix + capitalized(error.code.description),
            message: ([error.reason, error.recoveryAction.sentences]
                + (actions.isEmpty ? [] : [actions]))
                .joined(separator: "\n"))
    }

    /// The error for an answer that the client cannot decode.
    static let invalidAnswer = BusError(
        name: errorPrefix + capitalized(CommonErrorCode.refused.description),
        message:
            "the presence broker's answer is not valid\nAsk an administrator to check latchkey-presenced."
    )

    static func answer(_ error: BusError) -> ApprovalAnswer? {
        switch error.name {
        case notRecognised.name: .notRecognised
        case declined("").name: .declined(String(oneLine: error.message, limit: longestText))
        default: nil
        }
    }

    static func keystoreError(_ error: BusError) -> KeystoreError {
        let operation = "use the presence broker"
        guard error.name.hasPrefix(errorPrefix) else {
            return KeystoreError(
                operation: operation, code: error.isAbsence ? .unavailable : .transient,
                reason: error.isAbsence
                    ? "the presence broker is not running" : "the presence broker did not answer",
                recovery: error.isAbsence
                    ? "Install latchkey-presenced. If it is installed, ‘journalctl -u latchkey-presenced’ says why it does not run."
                    : "Try again. If it fails again, check latchkey-presenced: systemctl status latchkey-presenced.",
                underlying: .init(layer: "dbus", text: "\(error.name): \(error.message)"))
        }
        let word = error.name.dropFirst(errorPrefix.count)
        let lines = error.message.split(separator: "\n", maxSplits: 2).map {
            String(oneLine: $0, limit: longestText)
        }
        let actions = lines.dropFirst(2).joined().split(separator: " ").compactMap {
            Recovery.Action(rawValue: String($0))
        }
        return KeystoreError(
            operation: operation,
            code: CommonErrorCode.allCases.first { capitalized($0.description) == word } ?? .failed,
            reason: lines.first ?? "the presence broker refused",
            recovery: actions.reduce(Recovery(lines.count > 1 ? lines[1] : "Try again.")) {
                $0.offering($1)
            },
            underlying: .init(layer: "dbus", text: error.name))
    }

    private static func capitalized(_ word: String) -> String {
        word.prefix(1).uppercased() + word.dropFirst()
    }
}

extension PresenceWire {
    /// The arguments of `Approve`: `use, keyName, digest, nonceTPM, requirement, reuse, reason,
    /// container`.
    package static func arguments(_ request: ApprovalRequest) -> [BusValue] {
        let (use, digest) = words(request.use)
        return [
            .string(use), .bytes(Array(request.keyName)), .bytes(digest),
            .bytes(Array(request.nonceTPM)),
        ]
            + arguments(request.policy) + [
                shortened(request.context.reason), shortened(request.context.container),
            ]
    }

    /// The name of a use, and its digest or message.
    static func words(_ use: ApprovalRequest.Use) -> (name: String, bytes: [UInt8]) {
        switch use {
        case .sign(let digest): ("sign", digest.bytes)
        case .signNamingScheme(let digest): ("sign-es256", digest.bytes)
        case .unseal: ("unseal", [])
        case .mac(let message): ("mac", Array(message))
        }
    }

    /// A text of the prompt, cut to the length that the broker accepts.
    private static func shortened(_ text: String) -> BusValue { .string(shortened(text)) }

    static func shortened(_ text: String) -> String {
        String(oneLine: text, limit: ApprovalRequest.maximumTextBytes / 4)
    }

    package static func request(_ arguments: [BusValue]) -> ApprovalRequest? {
        guard arguments.count == 8, let use = use(arguments[0], arguments[2]),
            let name = arguments[1].bytes,
            let nonce = arguments[3].bytes, let policy = policy(arguments[4...5]),
            let reason = arguments[6].string,
            let container = arguments[7].string
        else { return nil }
        return ApprovalRequest(
            use: use, keyName: Data(name), nonceTPM: Data(nonce), policy: policy,
            context: PromptContext(reason: reason, container: container))
    }

    package static func arguments(_ approval: PresenceApproval) -> [BusValue] {
        [.int32(approval.expiration), .bytes(Array(approval.signature.rawRepresentation))]
    }

    static func approval(_ arguments: [BusValue]) -> PresenceApproval? {
        guard arguments.count == 2, let expiration = arguments[0].int32,
            let raw = arguments[1].bytes,
            let signature = ECDSASignature(rawRepresentation: raw)
        else { return nil }
        return PresenceApproval(expiration: expiration, signature: signature)
    }

    static func use(_ use: BusValue, _ digest: BusValue) -> ApprovalRequest.Use? {
        switch (use.string, digest.bytes) {
        case ("sign", let bytes?): MessageDigest(bytes: bytes).map(ApprovalRequest.Use.sign)
        case ("sign-es256", let bytes?):
            MessageDigest(bytes: bytes).map(ApprovalRequest.Use.signNamingScheme)
        case ("unseal", let bytes?) where bytes.isEmpty: .unseal
        case ("mac", let bytes?) where bytes.count == 32: .mac(Data(bytes))
        default: nil
        }
    }
}

extension PresenceWire {
    /// The answer to `State`: `state, detail, until`. `state` is `ready`, `not-available`,
    /// `not-enrolled` or `locked-out`; `detail` the reason; `until` a POSIX time or 0.
    package static func arguments(_ state: FingerState) -> [BusValue] {
        switch state {
        case .ready: [.string("ready"), .string(""), .uint64(0)]
        case .notAvailable(let why): [.string("not-available"), .string(why), .uint64(0)]
        case .notEnrolled: [.string("not-enrolled"), .string(""), .uint64(0)]
        case .lockedOut(let until):
            [
                .string("locked-out"), .string(""),
                // Whole seconds, and never early.
                .uint64(UInt64(max(0, until?.timeIntervalSince1970.rounded(.up) ?? 0))),
            ]
        }
    }

    static func state(_ arguments: [BusValue]) -> FingerState? {
        guard arguments.count == 3, let word = arguments[0].string,
            let detail = arguments[1].string,
            let until = arguments[2].uint64
        else { return nil }
        return switch word {
        case "ready": .ready
        case "not-available": .notAvailable(detail)
        case "not-enrolled": .notEnrolled
        case "locked-out":
            .lockedOut(until: until == 0 ? nil : Date(timeIntervalSince1970: Double(until)))
        default: nil
        }
    }
}

extension PresenceWire {
    package static func arguments(_ terms: PresenceTerms) -> [BusValue] {
        var entries: [String: BusValue] = [
            "User": .uint32(terms.user), "Authority": .bytes(Array(terms.authority)),
        ]
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
            user: user, authority: Data(authority),
            authorityHandle: entries["AuthorityHandle"]?.uint32,
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
        guard arguments.count == 3, let pin = pin(arguments[0], arguments[1]),
            let initial = arguments[2].bytes
        else {
            return nil
        }
        return UnsetUserPIN(pin: pin, initialValue: SecretBytes(initial))
    }

    private static func pin(_ publicArea: BusValue?, _ resetPolicy: BusValue?) -> PresenceTerms
        .UserPIN?
    {
        guard let area = publicArea?.bytes, let policy = resetPolicy?.bytes else { return nil }
        return PresenceTerms.UserPIN(publicArea: Data(area), resetPolicy: Data(policy))
    }

    // MARK: A policy

    package static func arguments(_ policy: AccessPolicy) -> [BusValue] {
        [.string(policy.requirement.rawValue), .uint32(UInt32(policy.reuseSeconds))]
    }

    package static func policy(_ arguments: some Collection<BusValue>) -> AccessPolicy? {
        let arguments = Array(arguments)
        guard arguments.count == 2,
            let requirement = arguments[0].string.flatMap(AccessPolicy.Requirement.init),
            let reuse = arguments[1].uint32
        else { return nil }
        return AccessPolicy(requirement, reuseSeconds: Int(reuse))
    }
}
