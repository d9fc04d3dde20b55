public import Latchkey

extension PKCS11Keystore {
    /// Reads the counter of the token's PIN, which protects everything on it.
    public func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        do {
            return try await pinStatus(takeSnapshot(), isPrecise: true)
        } catch {
            throw error.during("read the token's PIN flags")
        }
    }

    /// Changes the token's PIN, which protects everything on it. Returns the keys and secrets
    /// unchanged.
    ///
    /// Does nothing if none of them has a PIN.
    ///
    /// - Throws: `KeystoreError`; `unsupported` if the token verifies the user itself,
    ///   `invalidInput` for a new PIN of a length that the token does not accept.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        do throws(KeystoreError) {
            var snapshot: TokenSnapshot?
            for key in keys {
                let blob = try TokenKeyBlob.of(key)
                guard key.policy.requirement != .none else { continue }
                snapshot = try await checkedSnapshot(
                    of: blob.name, withHash: blob.publicKeyHash, under: key.policy)
            }
            for secret in secrets {
                let header = try box(of: secret).header
                guard secret.policy.requirement != .none else { continue }
                snapshot = try await sealingSnapshot(for: header)
            }
            if let snapshot { try await replacePIN(on: snapshot, for: prompt, presence) }
            return (keys, secrets)
        } catch {
            throw error.during("change the PIN")
        }
    }

    private func replacePIN(
        on snapshot: TokenSnapshot, for prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        guard !snapshot.profile.verifiesUserItself else {
            throw .unsupported(
                "the token prompts for the PIN or fingerprint on its own reader",
                recovery: "Change it with the token's or the reader's own tool.")
        }
        let old = try await userProof(snapshot, for: prompt, presence)
        var request = PINRequest(purpose: .new, context: prompt)
        request.minimumCharacters = snapshot.profile.minimumPINCharacters
        let new = try await presence.givenPIN(request)
        try snapshot.profile.checkNew(new)
        do {
            try await snapshot.token.changePIN(from: old, to: .pin(new))
        } catch {
            presence.rejected()
            if let refusal = KeystoreError.newPINRefused(error) { throw refusal }
            throw await explained(error, snapshot, presence)
        }
        presence.accepted()
    }
}

extension PKCS11Keystore {
    /// The user's proof: the PIN, or the token's own prompt. Does not prompt if the PIN is locked.
    func userProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        var status = try await pinStatus(snapshot, isPrecise: false)
        if status.isLockedOut, snapshot.module.cachesStaleState {
            // Another program may have unblocked the PIN since.
            status = PINStatus(
                try await snapshot.token.inspect { (session) throws(CryptokiError) in
                    let information = try session.tokenInformation()
                    try session.confirm(!information.flags.contains(.userPINLocked))
                    return information
                })
        }
        guard !status.isLockedOut else { throw await lockedPIN(snapshot) }
        guard
            snapshot.information.flags.contains(.userPINInitialized)
                || snapshot.profile.verifiesUserItself
        else {
            throw .noUserPIN(
                snapshot.module,
                mayPromptItself: !snapshot.information.flags.contains(.loginRequired))
        }
        let proof = try await snapshot.profile.proof(
            .current, for: prompt, status, presence)
        guard case .protectedPath = proof, let text = snapshot.module.fingerprintPIN else {
            return proof
        }
        return .pin(try PIN(text))
    }

    /// Checks, without a prompt, whether the security officer can log in.
    ///
    /// - Returns: The state of a PIV card.
    /// - Throws: `KeystoreError`; `lockedOut`, `unsupported` for an AES management key that the
    ///   module can't use.
    @discardableResult
    func checkOfficer(_ snapshot: TokenSnapshot) async throws(KeystoreError) -> PIVCardStatus? {
        guard !snapshot.information.flags.contains(.securityOfficerPINLocked) else {
            throw KeystoreError(
                code: .lockedOut, reason: "the token's security officer PIN is locked",
                recovery: "Adopt a key that is on the token already, or erase the token.")
        }
        let card = await snapshot.token.pivCardStatus()
        if let version = snapshot.module.versionWithAESManagementKey,
            card?.managementKeyAlgorithm == .aes
        {
            throw .unusableManagementKey(version)
        }
        return card
    }

    /// The security officer's PIN, which some tokens require for creating keys.
    func officerProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        let card = try await checkOfficer(snapshot)
        var request = PINRequest(
            purpose: .securityOfficer, context: prompt,
            attemptsLeft: snapshot.information.officerAttemptsLeft)
        guard snapshot.module.usesSlotIDs else { return .pin(try await presence.givenPIN(request)) }
        request.officerSecret = PINRequest.OfficerSecret(card)
        if card?.isManagementKeyProtected == true {
            // The card counts a wrong PIN here like anywhere else.
            let status = try await pinStatus(snapshot, isPrecise: false)
            guard !status.isLockedOut else { throw await lockedPIN(snapshot) }
            request.attemptsLeft = status.attemptsLeft
        }
        let entry = try await presence.givenPIN(request)
        // Yubico's module sends a short entry to the card as the PIN, which counts as an attempt.
        guard card?.isManagementKeyProtected != false || ManagementKey.isWellFormed(entry) else {
            throw KeystoreError(
                code: .wrongProof, reason: "the management key is wrong",
                recovery:
                    "Enter its 48 hexadecimal digits. This card does not accept the PIN in its place. The entry was not sent."
            )
        }
        return .pin(entry)
    }

    /// The error for a failed login of the security officer, or for an operation that failed during
    /// such a login.
    func officerError(_ error: CryptokiError, _ snapshot: TokenSnapshot) async -> KeystoreError {
        KeystoreError(
            error, profile: snapshot.module,
            checking: .officer(snapshot.module, await snapshot.token.pivCardStatus()))
    }

    /// The error for a locked PIN. Asks a PIV card whether its PUK is blocked too.
    func lockedPIN(_ snapshot: TokenSnapshot, underlying: CryptokiError? = nil) async
        -> KeystoreError
    {
        let card = await snapshot.token.pivCardStatus()
        return .pinLocked(
            snapshot.module, snapshot.information, isPUKBlocked: card?.pukAttemptsLeft == 0,
            underlying: underlying)
    }

    /// The error for the locked PIN of this token.
    package func lockedPINError() async -> KeystoreError {
        do throws(KeystoreError) {
            return await lockedPIN(try await takeSnapshot()).during("use the token's PIN")
        } catch {
            return error.during("look at the token")
        }
    }
}

extension PINRequest.OfficerSecret {
    fileprivate init(_ card: PIVCardStatus?) {
        self =
            switch card?.isManagementKeyProtected {
            case true?: .protectingPIN
            case false?: .managementKey(orPIN: false)
            case nil: .managementKey(orPIN: true)
            }
    }
}

extension TokenProfile {
    /// Prompts for a PIN, or tells the user to use the reader if the token itself prompts.
    func proof(
        _ purpose: PINRequest.Purpose, for prompt: PromptContext, _ status: PINStatus? = nil,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        guard !verifiesUserItself else {
            await presence.notice(.useReader(prompt))
            return .protectedPath
        }
        var request = PINRequest(
            purpose: purpose, context: prompt, attemptsLeft: status?.attemptsLeft)
        request.minimumCharacters = minimumPINCharacters
        if purpose == .securityOfficer, isPIV {
            request.officerSecret = .managementKey(orPIN: false)
        }
        if let status, status.attemptsLeft == nil, status.isCountLow {
            request.hint = "A wrong PIN was entered before; few attempts are left."
        }
        let pin = try await presence.givenPIN(request)
        if purpose == .current { try check(pin, attemptsLeft: status?.attemptsLeft) }
        return .pin(pin)
    }
}

// PINs of a wrong length are not sent to the token: it would count them as attempts, or answer with
// a misleading code.
extension TokenProfile {
    /// The minimum length of a new PIN. The token counts bytes, and no character has less than one.
    fileprivate var minimumPINCharacters: Int {
        max(PIN.minimumCharacters, pinLength?.lowerBound ?? 0)
    }

    /// Checks the length of the user's current PIN.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongProof`.
    private func check(_ pin: PIN, attemptsLeft: Int?) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: pinLength) else { return }
        throw KeystoreError(
            code: .wrongProof,
            reason:
                "the token's PIN has \(range.lowerBound) to \(range.upperBound) bytes, and this one \(count)",
            recovery: "Try again with the token's PIN; this one was not sent.",
            attemptsLeft: attemptsLeft)
    }

    /// Checks the length of a new PIN of the user or the security officer.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    func checkNew(_ pin: PIN, of role: LoginRole = .user) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: role == .user ? pinLength : officerPINLength)
        else { return }
        throw .invalidInput(
            "the token accepts PINs of \(range.lowerBound) to \(range.upperBound) bytes, and the new one has \(count)"
        )
    }

    private func misfit(_ pin: PIN, in range: ClosedRange<Int>?) -> (
        range: ClosedRange<Int>, count: Int
    )? {
        let count = pin.withUnsafeBytes { $0.count }
        guard let range, !range.contains(count) else { return nil }
        return (range, count)
    }
}

extension PKCS11Keystore {
    /// The error for a failed use of a private key. Reads the token's flags where the answer alone
    /// does not say enough, and reports a rejected PIN to `presence`.
    func explained(
        _ error: CryptokiError, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async -> KeystoreError {
        let meaning = KeystoreError(error, profile: snapshot.module)
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?:
            return .cancelled("the user declined at the reader")
        case .pinLocked?, .pinIncorrect?, .pinInvalid?, .pinLenRange?: presence.rejected()
        default: return meaning
        }
        guard error.returnValue != .pinLocked else {
            return await lockedPIN(snapshot, underlying: error)
        }
        guard let current = try? await takeSnapshot(),
            let status = try? await pinStatus(current, isPrecise: true)
        else { return meaning }
        guard !status.isLockedOut else { return await lockedPIN(snapshot, underlying: error) }
        return .wrongPIN(
            status, verifiesUserItself: snapshot.profile.verifiesUserItself, underlying: error)
    }

    /// - Parameter isPrecise: Whether to ask a card even if no wrong PIN is known.
    func pinStatus(_ snapshot: TokenSnapshot, isPrecise: Bool) async throws(KeystoreError)
        -> PINStatus
    {
        do {
            return try await snapshot.token.pinStatus(
                snapshot.information, snapshot.profile.pinCounter, isPrecise: isPrecise)
        } catch {
            throw KeystoreError(error, profile: snapshot.module)
        }
    }
}

extension KeystoreError {
    static func wrongPIN(
        _ status: PINStatus, verifiesUserItself: Bool = false, underlying: CryptokiError
    ) -> KeystoreError {
        let reason =
            verifiesUserItself
            ? "the token did not accept the PIN or fingerprint" : "the PIN is wrong"
        let (left, recovery) =
            switch status.attemptsLeft {
            case 1:
                (
                    "; 1 attempt is left",
                    "Check the PIN before you try again: the next wrong one locks the token."
                )
            case let count?: ("; \(count) attempts are left", "Try again with the right PIN.")
            case nil where status.isCountLow:
                ("; few attempts are left", "Check the PIN before you try again.")
            case nil: ("", "Try again.")
            }
        return KeystoreError(
            code: .wrongProof, reason: reason + left, recovery: recovery,
            attemptsLeft: status.attemptsLeft,
            underlying: UnderlyingError(underlying))
    }
}

extension PINStatus {
    /// The PIN status by the token's flags. The only number that they give is "one attempt left".
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else {
                nil
            }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
        isCountLow = information.flags.contains(.userPINCountLow)
    }
}

extension PKCS11Keystore {
    /// Unblocks the token's PIN with its unblocking code (PUK) or the security officer's PIN, and
    /// sets a new PIN. The new PIN answers the next prompt of the same operation.
    ///
    /// Returns `false` for a token that only another program can unblock. The error for the locked
    /// PIN names that program.
    public func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        do throws(KeystoreError) {
            let snapshot = try await sealingSnapshot(for: box(of: secret).header)
            guard secret.policy.requirement != .none,
                try await pinStatus(snapshot, isPrecise: true).isLockedOut
            else {
                return true
            }
            let administrator = TokenAdministrator(
                snapshot.token.uri, options: options, container: prompt.container,
                presence: presence)
            do throws(KeystoreError) {
                try await administrator.unblockPIN()
            } catch {
                guard error.code == .unsupported else { throw error }
                return false
            }
            return true
        } catch {
            throw error.during("lift a lockout")
        }
    }
}
