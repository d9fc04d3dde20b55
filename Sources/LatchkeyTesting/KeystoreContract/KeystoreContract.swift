public import Latchkey
internal import Testing

/// What every `Keystore` must do, as a suite that runs over any of them.
///
/// Each ``Requirement`` is one test, on a device of its own whose guard against guessing is fresh. Where devices rightly
/// differ, a ``Device`` says what this one is like:
///
/// ```swift
/// @Test(.softwareTPM, arguments: KeystoreContract.Requirement.allCases)
/// func `a TPM keystore`(_ requirement: KeystoreContract.Requirement) async throws {
///     let tpm = try SoftwareTPM.current
///     try await KeystoreContract(
///         open: { try TPMKeystore(tcti: tpm.tcti) },
///         openOther: { body in try await SoftwareTPM.withRunning { try await body(TPMKeystore(tcti: $0.tcti)) } }
///     ).check(requirement)
/// }
/// ```
public struct KeystoreContract: Sendable {
    /// Opens a keystore on the device; called again, another one on the same device.
    public typealias Open = @Sendable () async throws -> any Keystore
    /// Lends a keystore on another device.
    public typealias OpenOther = @Sendable (_ body: (any Keystore) async throws -> Void) async throws -> Void

    /// Opens the keystore that makes keys under a policy.
    public typealias OpenToMake = @Sendable (_ policy: AccessPolicy) async throws -> any Keystore

    let device: Device
    let open: Open
    let openToMake: OpenToMake?
    let openOther: OpenOther

    /// - Parameters:
    ///   - device: What the device is like; by default as a TPM, with a counted PIN for each key.
    ///   - openToMake: For a device whose keys are named one by one (adopted): the keystore on the same device that
    ///     names one of this policy. By default the keystore under contract makes its keys itself.
    public init(
        device: Device = Device(), open: @escaping Open, openToMake: OpenToMake? = nil, openOther: @escaping OpenOther
    ) {
        self.device = device
        self.open = open
        self.openToMake = openToMake
        self.openOther = openOther
    }

    /// Checks one requirement. A breach is recorded as an issue of the running test.
    public func check(_ requirement: Requirement) async throws {
        let keystore = try await open()
        switch requirement {
        case .signsWithoutPresence: try await signsWithoutPresence(keystore)
        case .signsWithPIN: try await signsWithPIN(keystore)
        case .eachKeyIsNew: try await eachKeyIsNew(keystore)
        case .anotherInstanceUsesTheKey: try await anotherInstanceUsesTheKey(keystore)
        case .signsConcurrently: try await signsConcurrently(keystore)
        case .deletesTwice: try await deletesTwice(keystore)
        case .attests: try await attests(keystore)
        case .refusesWrongPIN: try await refusesWrongPIN(keystore)
        case .locksOut: try await locksOut(keystore)
        case .declinedAtBirth: try await declinedAtBirth(keystore)
        case .declinedAtUse: try await declinedAtUse(keystore)
        case .nobodyToAsk: try await nobodyToAsk(keystore)
        case .takesAnyScript: try await takesAnyScript(keystore)
        case .everyCharacterCounts: try await everyCharacterCounts(keystore)
        case .changesPIN: try await changesPIN(keystore)
        case .changeNeedsOldPIN: try await changeNeedsOldPIN(keystore)
        case .declinedChange: try await declinedChange(keystore)
        case .sealsWithoutPresence: try await sealsWithoutPresence(keystore)
        case .sealsWithPIN: try await sealsWithPIN(keystore)
        case .seals32BytesOnly: try await seals32BytesOnly(keystore)
        case .takesBack: try await takesBack(keystore)
        case .takesBackKeys: try await takesBackKeys(keystore)
        case .reusesProof: try await reusesProof(keystore)
        case .endsReuse: try await endsReuse(keystore)
        case .endsReuseMidway: try await endsReuseMidway(keystore)
        case .asksAnewWhereTold: try await asksAnewWhereTold(keystore)
        case .refusesUnsupportedPolicies: try await refusesUnsupportedPolicies(keystore)
        case .damagedKey: try await damagedKey(keystore)
        case .damagedSecret: try await damagedSecret(keystore)
        case .editedPolicy: try await editedPolicy(keystore)
        case .editedPublicKey: try await editedPublicKey(keystore)
        case .otherDevice: try await otherDevice(keystore)
        }
    }
}

// MARK: - What the requirements share

extension KeystoreContract {
    static let prompt = PromptContext(reason: "check the contract", container: "contract")
    static let digest = MessageDigest(sha256: Array("a message".utf8))

    /// The policy of the device's guarded keys.
    var guarded: AccessPolicy { device.guardedPolicy }

    /// A second policy for a second key: another one where the device has one key for each.
    var secondFree: AccessPolicy { device.hasOneKeyPerPolicy ? guarded : free }

    /// The policy of keys that need nobody, where the device has any.
    var free: AccessPolicy { device.hasOpenKeys ? .none : guarded }

    /// The policy of secrets that need nobody, where the device has any.
    var freeSecret: AccessPolicy { device.sealsOpenly ? .none : guarded }

    /// A person who gives these proofs, in order.
    func person(_ proofs: Device.Proof...) -> ScriptedPresence { device.person(proofs) }

    /// Makes a key of the policy where this device makes them.
    func create(
        _ keystore: any Keystore, _ request: KeyRequest, _ person: any PresenceAuthority
    ) async throws -> HardwareKey {
        let maker = try await openToMake?(request.policy) ?? keystore
        return try await maker.createKey(request, authorizedBy: person)
    }

    /// Makes a key; the proofs answer the prompts.
    func makeKey(
        _ keystore: any Keystore, _ policy: AccessPolicy, _ proof: Device.Proof = .right
    ) async throws -> HardwareKey {
        try await create(keystore, KeyRequest(policy: policy, prompt: Self.prompt), person(proof))
    }

    func sign(
        _ keystore: any Keystore, _ key: HardwareKey, _ proof: Device.Proof = .right
    ) async throws -> ECDSASignature {
        try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: person(proof))
    }

    func seal(
        _ keystore: any Keystore, _ secret: SecretBytes, _ policy: AccessPolicy
    ) async throws -> SealedSecret {
        try await keystore.seal(secret, policy: policy, for: Self.prompt, authorizedBy: person(.right))
    }

    /// Seals 32 random bytes, or checks that the device says that it can't.
    func sealed(_ keystore: any Keystore, _ policy: AccessPolicy) async throws -> SealedSecret? {
        guard device.canSeal else {
            let presence = person(.right)
            await Self.expect(.unsupported, of: "seal") {
                _ = try await keystore.seal(
                    .random(count: 32), policy: policy, for: Self.prompt, authorizedBy: presence)
            }
            #expect(presence.asked.isEmpty)
            return nil
        }
        return try await seal(keystore, .random(count: 32), policy)
    }

    func unseal(
        _ keystore: any Keystore, _ secret: SealedSecret, _ proof: Device.Proof = .right
    ) async throws -> SecretBytes {
        try await keystore.unseal(secret, for: Self.prompt, authorizedBy: person(proof))
    }

    /// Runs `body` and expects a ``KeystoreError`` with one of the codes.
    ///
    /// - Returns: The error.
    @discardableResult
    static func expect(
        _ codes: KeystoreError.Code..., of operation: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async -> KeystoreError? {
        do {
            try await body()
            Issue.record("\(operation): no error, not \(codes)", sourceLocation: sourceLocation)
            return nil
        } catch let error as KeystoreError {
            #expect(
                codes.contains(error.code), "\(operation): \(error.code): \(error)", sourceLocation: sourceLocation)
            return error
        } catch {
            Issue.record("\(operation): \(error), not a KeystoreError", sourceLocation: sourceLocation)
            return nil
        }
    }
}
