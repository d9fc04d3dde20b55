public import Latchkey
internal import Testing

/// What every ``Keystore`` must do, as a suite that runs over any of them.
///
/// Each ``Requirement`` is one test, on a device of its own whose guard against guessing is fresh:
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

    let open: Open
    let openOther: OpenOther

    public init(open: @escaping Open, openOther: @escaping OpenOther) {
        self.open = open
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

    /// Makes a key; `pin` answers the prompt where the policy has one.
    static func makeKey(_ keystore: any Keystore, _ policy: AccessPolicy, pin: String? = nil) async throws
        -> HardwareKey
    {
        try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt), authorizedBy: ScriptedPresence(pin.map { [.pin($0)] } ?? []))
    }

    static func sign(_ keystore: any Keystore, _ key: HardwareKey, pin: String? = nil) async throws -> ECDSASignature {
        try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: ScriptedPresence(pin.map { [.pin($0)] } ?? []))
    }

    static func unseal(_ keystore: any Keystore, _ secret: SealedSecret, pin: String? = nil) async throws
        -> SecretBytes
    {
        try await keystore.unseal(
            secret, for: prompt, authorizedBy: ScriptedPresence(pin.map { [.pin($0)] } ?? []))
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
