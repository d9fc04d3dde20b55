package import Latchkey

/// A CTAP 2.0 authenticator with built-in user verification: requests in, steps and answers out. A
/// state machine over bytes that knows no transport. ``PasskeyEngine`` performs its steps.
///
/// It verifies the user for each use, whatever the request says: the hardware refuses a use without
/// the proof. It issues no `pinUvAuthToken`, because a token is issued before the data to sign is
/// known.
package struct Authenticator: Sendable {
    /// The next thing to do for the running request. Each step but ``answer(_:)`` ends with
    /// ``resume(_:at:)``.
    package enum Step: Sendable {
        /// The request is complete: the status, and a CBOR map if the status is 0.
        case answer([UInt8])
        /// Read the state of the hardware and the store: ``Event/state(_:)``.
        case inspect
        /// Read the passkeys of a site: ``Event/found(_:count:)``.
        case find(rpID: String)
        /// Prompt the user: ``Event/chosen(_:)``. `key` is the key that the answer uses, if there
        /// is only one.
        case ask(PasskeyQuestion, key: HardwareKey? = nil)
        /// Wait without a prompt for ``Event/cancelled`` or ``Event/timedOut``.
        case hold
        /// Create keys in the hardware: ``Event/created(key:macKey:)``.
        case create(PasskeyCreation)
        /// Verify the user and use the keys: ``Event/used(_:_:)``.
        case use(PasskeyUse)
        /// Store a new passkey durably: ``Event/stored``.
        case store(Passkey)
    }

    /// The result of a step.
    package enum Event: Sendable {
        case state(PasskeyState)
        /// The passkeys of the site, oldest first, and the number of all passkeys.
        case found([Passkey], count: Int)
        case chosen(PasskeyChoice)
        case created(key: HardwareKey, macKey: SealedSecret?)
        case used(ECDSASignature, [SecretBytes])
        case stored
        case failed(KeystoreError)
        case cancelled
        case timedOut
    }

    /// The phase of the running request.
    enum Phase: Sendable {
        case idle
        case inspecting(PasskeyInspection)
        case searching(Registration)
        case creatable(Registration)
        case creating(Registration)
        case attesting(Registration, Passkey, PasskeyQuestion)
        case storing(answer: [UInt8])
        case matching(AssertionRequest)
        case choosing(AssertionRequest, [Passkey])
        case signing(AssertionRequest, Passkey, PasskeyQuestion, wasChosen: Bool)
        /// A prompt that uses no key, and the answer if the user agrees.
        case agreeing([UInt8])
        case holding
    }

    /// The time that the user has for one prompt.
    package static let userTimeLimit: Duration = .seconds(30)
    /// The time after a refusal in which the same site gets no prompt.
    static let refusalSeconds: Duration = .seconds(10)

    let aaguid: AAGUID
    let firmwareVersion: Int
    let agreement = HMACSecret.Agreement()
    var phase = Phase.idle
    /// The matches of a silent request that getNextAssertion returns.
    var remaining: (request: AssertionRequest, passkeys: ArraySlice<Passkey>)?
    private var site: String?
    private var refusals: [String: Duration] = [:]
    private var promptLimit = PromptLimit()
    /// The site that the last prompt named.
    private var promptedSite: String?

    /// When the running step times out; nil for a step that does not wait for the user.
    package private(set) var deadline: Duration?
    /// The program that sends requests, for prompts. A hint, not a proof.
    package var program: String?

    package init(aaguid: AAGUID = .hardware, firmwareVersion: Int = 1) {
        self.aaguid = aaguid
        self.firmwareVersion = firmwareVersion
    }

    /// What the running step waits for.
    package var status: KeepaliveStatus { deadline == nil ? .processing : .userPresenceNeeded }

    /// Begins a request: the command byte and one CBOR map. A request that still runs is abandoned.
    package mutating func begin(_ request: [UInt8], at now: Duration) -> Step {
        phase = .idle
        deadline = nil
        site = nil
        do throws(CTAPStatus) {
            let step = try start(request, at: now)
            return try started(step, at: now)
        } catch {
            return finish(error)
        }
    }

    /// Continues the running request with the result of its step.
    package mutating func resume(_ event: Event, at now: Duration) -> Step {
        do throws(CTAPStatus) {
            switch event {
            case .cancelled: throw .keepaliveCancel
            case .timedOut: throw .userActionTimeout
            case .failed(let error): throw CTAPStatus(error)
            case .chosen(.no):
                if let site { refusals[site] = now }
                throw .operationDenied
            case .chosen(.notHere):
                phase = .holding
                return .hold
            default:
                noteConsent(event)
                return try started(try `continue`(event), at: now)
            }
        } catch {
            return finish(error)
        }
    }

    // MARK: Requests

    private mutating func start(_ request: [UInt8], at now: Duration) throws(CTAPStatus) -> Step {
        guard let first = request.first, let command = CTAPCommand(rawValue: first) else {
            throw .invalidCommand
        }
        let body = request.dropFirst()
        if command != .getNextAssertion { remaining = nil }
        switch command {
        case .getInfo:
            phase = .inspecting(.info)
            return .inspect
        case .clientPIN: return try clientPIN(CTAPParameters(body))
        case .reset: throw .notAllowed
        case .selection: return select(answer: [])
        case .getNextAssertion: return try nextSilentAnswer()
        case .makeCredential:
            let request = try RegistrationRequest(CTAPParameters(body))
            try enter(request.rpID, at: now)
            return try register(request)
        case .getAssertion:
            let request = try AssertionRequest(CTAPParameters(body), agreement: agreement)
            if request.isProbe { return select(answer: nil) }
            if !request.isSilent { try enter(request.rpID, at: now) }
            phase = .matching(request)
            return .find(rpID: request.rpID)
        }
    }

    private mutating func `continue`(_ event: Event) throws(CTAPStatus) -> Step {
        switch (phase, event) {
        case (.inspecting(let inspection), .state(let state)):
            return .answer(Self.success(answer(inspection, state)))
        case (.searching(let registration), .found(let passkeys, let count)):
            return try check(registration, passkeys, count)
        case (.creatable(let registration), .chosen(.use)): return create(registration)
        case (.creating(let registration), .created(let key, let macKey)):
            return attest(registration, key, macKey)
        case (.attesting(let registration, let passkey, _), .used(let signature, _)):
            return try store(registration, passkey, signature)
        case (.storing(let answer), .stored): return .answer(answer)
        case (.matching(let request), .found(let passkeys, _)): return try match(request, passkeys)
        case (.choosing(let request, let passkeys), .chosen(.use(let index))):
            return try sign(request, passkeys, index)
        case (
            .signing(let request, let passkey, _, let wasChosen), .used(let signature, let outputs)
        ):
            return try assert(request, passkey, signature, outputs, wasChosen: wasChosen)
        case (.agreeing(let answer), .chosen(.use)): return .answer(answer)
        default: throw .other
        }
    }

    /// Prompts for the selection of a device.
    ///
    /// - Parameter answer: The answer if the user agrees; nil for `PIN_NOT_SET`.
    mutating func select(answer: [UInt8]?) -> Step {
        phase = .agreeing(
            answer.map { [CTAPStatus.ok.rawValue] + $0 } ?? [CTAPStatus.pinNotSet.rawValue])
        return .ask(question(.selectDevice, site: nil))
    }

    private mutating func clientPIN(_ parameters: CTAPParameters) throws(CTAPStatus) -> Step {
        switch try parameters.integer(2) {
        case 2: return .answer(Self.success([1: agreement.publicKey]))
        case 7:
            phase = .inspecting(.retries)
            return .inspect
        case nil: throw .missingParameter
        default: throw .invalidSubcommand
        }
    }

    // MARK: Prompts

    /// Refuses a request of a site that the user refused a moment ago.
    private mutating func enter(_ rpID: String, at now: Duration) throws(CTAPStatus) {
        site = rpID
        refusals = refusals.filter { now - $0.value < Self.refusalSeconds }
        if refusals[rpID] != nil { throw .operationDenied }
    }

    func question(
        _ purpose: PasskeyQuestion.Purpose, site: String?, accounts: [String] = [],
        usesPRF: Bool = false
    ) -> PasskeyQuestion {
        PasskeyQuestion(
            purpose: purpose, site: site.map { String(oneLine: $0, limit: 253) },
            accounts: accounts, usesPRF: usesPRF,
            program: program, timeLimit: Self.userTimeLimit)
    }

    /// Sets the deadline of a step that waits for the user. One limit applies to all prompts of a
    /// request.
    private mutating func started(_ step: Step, at now: Duration) throws(CTAPStatus) -> Step {
        if case .ask(let question, _) = step {
            guard promptLimit.admit(question.site, at: now) else { throw .operationDenied }
            promptedSite = question.site
        }
        switch step {
        case .ask, .hold, .use: deadline = deadline ?? now + Self.userTimeLimit
        case .answer:
            deadline = nil
            phase = .idle
        case .inspect, .find, .create, .store: deadline = nil
        }
        return step
    }

    /// A choice before a verification is not consent yet: the prompt may leave the question to the
    /// verification.
    private mutating func noteConsent(_ event: Event) {
        switch (phase, event) {
        case (.agreeing, .chosen(.use)), (.attesting, .used), (.signing, .used):
            promptLimit.accept(promptedSite)
        default: break
        }
    }

    private mutating func finish(_ status: CTAPStatus) -> Step {
        phase = .idle
        deadline = nil
        return .answer([status.rawValue])
    }

    static func success(_ members: [CBORKey: CBORValue]) -> [UInt8] {
        [CTAPStatus.ok.rawValue] + CBORValue.map(members).encoded
    }
}

extension CTAPStatus {
    /// The status for a failure of the hardware or the store. A wrong PIN is never `other`:
    /// Chromium would drop the device.
    init(_ error: KeystoreError) {
        self =
            switch error.code {
            case .wrongProof: .verificationInvalid
            case .lockedOut: .verificationBlocked
            case .cancelled: .operationDenied
            default: .other
            }
    }
}
