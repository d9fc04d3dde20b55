package import Latchkey
internal import LatchkeyTesting
internal import Testing

/// The test suite that every `Keystore` must pass.
///
/// Each ``Requirement`` is one test on a new device without earlier wrong PINs. A ``Device``
/// describes permitted differences between devices:
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
package struct KeystoreContract: Sendable {
    /// Opens a keystore on the device. A second call opens another keystore on the same device.
    package typealias Open = @Sendable () async throws -> any Keystore
    /// Runs a closure with a keystore on another device.
    package typealias OpenOther =
        @Sendable (_ body: (any Keystore) async throws -> Void) async throws -> Void

    /// Opens the keystore that creates keys with a policy.
    package typealias OpenToMake = @Sendable (_ policy: AccessPolicy) async throws -> any Keystore

    let device: Device
    let open: Open
    let openToMake: OpenToMake?
    let openOther: OpenOther

    /// - Parameters:
    ///   - device: The device's properties; by default those of a TPM, with a counted PIN for each
    ///     key.
    ///   - openToMake: For a device with adopted keys: the keystore on the same device that adopts
    ///     a key with this policy. By default the tested keystore creates its keys.
    package init(
        device: Device = Device(), open: @escaping Open, openToMake: OpenToMake? = nil,
        openOther: @escaping OpenOther
    ) {
        self.device = device
        self.open = open
        self.openToMake = openToMake
        self.openOther = openOther
    }

    /// Checks one requirement. Records an issue of the running test for each violation.
    package func check(_ requirement: Requirement) async throws {
        let keystore = try await open()
        switch requirement {
        case .signsWithoutPresence: try await signsWithoutPresence(keystore)
        case .signsWithPIN: try await signsWithPIN(keystore)
        case .refusesHiddenLabels: try await refusesHiddenLabels(keystore)
        case .eachKeyIsNew: try await eachKeyIsNew(keystore)
        case .anotherInstanceUsesTheKey: try await anotherInstanceUsesTheKey(keystore)
        case .signsConcurrently: try await signsConcurrently(keystore)
        case .deletesTwice: try await deletesTwice(keystore)
        case .attests: try await attests(keystore)
        case .attestsInForms: try await attestsInForms(keystore)
        case .keepsIssuersApart: try await keepsIssuersApart(keystore)
        case .refusesWrongPIN: try await refusesWrongPIN(keystore)
        case .locksOut: try await locksOut(keystore)
        case .liftsNoLockoutWithoutProof: try await liftsNoLockoutWithoutProof(keystore)
        case .declinedAtCreation: try await declinedAtCreation(keystore)
        case .declinedAtUse: try await declinedAtUse(keystore)
        case .reportsUnavailablePrompt: try await reportsUnavailablePrompt(keystore)
        case .takesAnyScript: try await takesAnyScript(keystore)
        case .everyCharacterCounts: try await everyCharacterCounts(keystore)
        case .changesPIN: try await changesPIN(keystore)
        case .changeNeedsOldPIN: try await changeNeedsOldPIN(keystore)
        case .declinedChange: try await declinedChange(keystore)
        case .sealsWithoutPresence: try await sealsWithoutPresence(keystore)
        case .sealsWithPIN: try await sealsWithPIN(keystore)
        case .seals32BytesOnly: try await seals32BytesOnly(keystore)
        case .revokesSecrets: try await revokesSecrets(keystore)
        case .revokesKeys: try await revokesKeys(keystore)
        case .reusesProof: try await reusesProof(keystore)
        case .endsReuse: try await endsReuse(keystore)
        case .endsReuseMidway: try await endsReuseMidway(keystore)
        case .promptsWhenReuseIsForbidden: try await promptsWhenReuseIsForbidden(keystore)
        case .refusesUnsupportedPolicies: try await refusesUnsupportedPolicies(keystore)
        case .damagedKey: try await damagedKey(keystore)
        case .damagedSecret: try await damagedSecret(keystore)
        case .editedPolicy: try await editedPolicy(keystore)
        case .editedPublicKey: try await editedPublicKey(keystore)
        case .otherDevice: try await otherDevice(keystore)
        }
    }
}

// MARK: - Helpers of the requirements

extension KeystoreContract {
    static let prompt = PromptContext(reason: "check the contract", container: "contract")
    static let digest = MessageDigest(sha256: Array("a message".utf8))

    /// The policy of the device's guarded keys.
    var guarded: AccessPolicy { device.guardedPolicy }

    /// The policy of a second key: another policy if the device has only one key for each.
    var secondFree: AccessPolicy { device.hasOneKeyPerPolicy ? guarded : free }

    /// The policy of keys without user verification, or the guarded policy if the device has no
    /// such keys.
    var free: AccessPolicy { device.hasOpenKeys ? .none : guarded }

    /// The policy of secrets without user verification, or the guarded policy if the device has no
    /// such secrets.
    var freeSecret: AccessPolicy { device.sealsOpenly ? .none : guarded }

    /// A user who gives these proofs, in order.
    func person(_ proofs: Device.Proof...) -> ScriptedPresence { device.person(proofs) }

    /// Creates a key with the keystore that creates keys with its policy.
    func create(
        _ keystore: any Keystore, _ request: KeyRequest, _ person: any PresenceAuthority
    ) async throws -> HardwareKey {
        let maker = try await openToMake?(request.policy) ?? keystore
        return try await maker.createKey(request, authorizedBy: person)
    }

    /// Creates a key with a user who gives this proof.
    func makeKey(
        _ keystore: any Keystore, _ policy: AccessPolicy, _ proof: Device.Proof = .right
    ) async throws -> HardwareKey {
        try await create(keystore, KeyRequest(policy: policy, prompt: Self.prompt), person(proof))
    }

    func sign(
        _ keystore: any Keystore, _ key: HardwareKey, _ proof: Device.Proof = .right
    ) async throws -> ECDSASignature {
        try await keystore.sign(
            Self.digest, with: key, for: Self.prompt, authorizedBy: person(proof))
    }

    func seal(
        _ keystore: any Keystore, _ secret: SecretBytes, _ policy: AccessPolicy
    ) async throws -> SealedSecret {
        try await keystore.seal(
            secret, policy: policy, for: Self.prompt, authorizedBy: person(.right))
    }

    /// Seals 32 random bytes, or checks that the device reports sealing as unsupported.
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

    /// Expects a ``KeystoreError`` of `body` with one of the codes.
    ///
    /// - Returns: The error.
    @discardableResult
    static func expect(
        _ codes: KeystoreError.Code..., of operation: String,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async -> KeystoreError? {
        do {
            try await body()
            Issue.record("\(operation): no error, not \(codes)", sourceLocation: sourceLocation)
            return nil
        } catch let error as KeystoreError {
            #expect(
                codes.contains(error.code), "\(operation): \(error.code): \(error)",
                sourceLocation: sourceLocation)
            return error
        } catch {
            Issue.record(
                "\(operation): \(error), not a KeystoreError", sourceLocation: sourceLocation)
            return nil
        }
    }
}

extension KeystoreContract {
    /// A requirement for every keystore.
    package enum Requirement: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case signsWithoutPresence = "signs with a key without user verification, without a prompt"
        case signsWithPIN =
            "prompts for a new PIN when it creates a key, and for the current PIN at each signature"
        case refusesHiddenLabels =
            "refuses labels with control and invisible characters, without a prompt"
        case eachKeyIsNew = "creates a different key each time"
        case anotherInstanceUsesTheKey = "uses a key and a secret that were stored and loaded"
        case signsConcurrently = "signs for concurrent tasks"
        case deletesTwice = "accepts the deletion of a deleted key"
        case attests = "attests its keys, or reports attestation as unsupported"
        case attestsInForms =
            "attests in the forms of the standards if it says so, without a prompt"
        case keepsIssuersApart =
            "has another attestation key for each issuer, or needs no activation"
        case refusesWrongPIN = "rejects a wrong PIN and reports the attempts left"
        case liftsNoLockoutWithoutProof = "lifts a lockout only with a proof"
        case locksOut = "locks after too many wrong PINs, and then does not prompt"
        case declinedAtCreation = "creates no key when the user declines"
        case declinedAtUse = "does not sign when the user declines, and counts no attempt"
        case reportsUnavailablePrompt = "reports that no prompt is available"
        case takesAnyScript = "accepts PINs in any script and Unicode composition"
        case everyCharacterCounts = "checks every character of a long PIN"
        case changesPIN = "changes the PIN of keys and secrets with two prompts"
        case changeNeedsOldPIN = "changes no PIN without the old PIN"
        case declinedChange = "changes no PIN when the user declines the new PIN"
        case sealsWithoutPresence = "unseals 32 bytes that it sealed without user verification"
        case sealsWithPIN = "unseals 32 bytes that it sealed with a PIN, with that PIN only"
        case seals32BytesOnly = "seals only 32 bytes"
        case revokesSecrets =
            "revokes a secret that it sealed revocably, or reports this as unsupported"
        case revokesKeys =
            "revokes revocable keys and their old PINs, or reports this as unsupported"
        case reusesProof =
            "reuses a proof for the time in the policy, or reports this as unsupported"
        case endsReuse = "prompts again after the end of reuse"
        case endsReuseMidway = "does not reuse a proof that the user gave during the end of reuse"
        case promptsWhenReuseIsForbidden =
            "does not reuse an earlier proof when the caller forbids reuse"
        case refusesUnsupportedPolicies =
            "rejects policies that it cannot enforce, without a prompt"
        case damagedKey = "detects every damage to a stored key"
        case damagedSecret = "detects every damage to a stored secret"
        case editedPolicy = "rejects an edited policy"
        case editedPublicKey = "detects an edited public key"
        case otherDevice = "rejects keys and secrets of another device"

        package var testDescription: String { rawValue }
    }
}
