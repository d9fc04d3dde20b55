internal import Latchkey

/// A CTAP 2.0 authenticator with built-in user verification: requests in, answers out. Each command
/// is a function of its request over ``PasskeyEffects``. It knows no transport: a HID device
/// (``PasskeyHIDDevice``) or another one passes it requests, one at a time.
///
/// It verifies the user for each use, whatever the request says: the hardware refuses a use without
/// the proof. It issues no `pinUvAuthToken`, because a token is issued before the data to sign is
/// known.
package actor Authenticator {
    /// The members of a successful answer; none for an answer that is only a status.
    typealias Answer = [CBORKey: CBORValue]

    private struct Running {
        let report: @Sendable (KeepaliveStatus) async -> Void
        let hold: @Sendable () async -> Void
        var status = KeepaliveStatus.processing
        /// When the user's time ends; nil while the user is not needed.
        var deadline: Duration?
        /// The programs that had opened the device at the prompt.
        var openers: DeviceOpeners?
        /// The site that the prompt concerns.
        var site: String?
        /// Whether there was a prompt.
        var hasPrompted = false
        /// Whether a prompt is open that the user has not answered.
        var isPrompting = false
        /// Whether the last program has closed the device.
        var isDisconnected = false
    }

    /// The time that the user has for a question, and that a request is held.
    static let questionTime: Duration = .seconds(30)
    /// The time that the user then has for the PIN or the finger.
    package static let verificationTime: Duration = .seconds(60)

    let effects: any PasskeyEffects
    let aaguid: AAGUID
    private let onAnswer: @Sendable (_ request: String, _ status: CTAPStatus) -> Void
    let agreement = HMACSecret.Agreement()
    /// The matches of a silent request that getNextAssertion returns.
    var remaining: (request: AssertionRequest, passkeys: ArraySlice<Passkey>)?
    private var running: Running?
    private var promptLimit = PromptLimit()

    /// - Parameter onAnswer: Called with each answer: the name of the request's command in CTAP, or
    ///   the number of an unknown one, and the status.
    package init(
        _ effects: any PasskeyEffects, aaguid: AAGUID = .hardware,
        onAnswer: @escaping @Sendable (_ request: String, _ status: CTAPStatus) -> Void = { _, _ in
        }
    ) {
        self.effects = effects
        self.aaguid = aaguid
        self.onAnswer = onAnswer
    }

    /// Answers a request: a command byte and a CBOR map. Cancel the task to end the request early;
    /// the prompt then closes, and the answer is `KEEPALIVE_CANCEL`.
    ///
    /// - Parameters:
    ///   - report: Called with the state of the request when it changes.
    ///   - hold: Called when the request only stays silent from now on: it can be cancelled for
    ///     another one.
    /// - Returns: The status, and a CBOR map if the status is 0. `CHANNEL_BUSY` while another
    ///   request runs.
    package func respond(
        to request: [UInt8],
        reporting report: @escaping @Sendable (KeepaliveStatus) async -> Void = { _ in },
        holding hold: @escaping @Sendable () async -> Void = {}
    ) async -> [UInt8] {
        let number = request.first ?? 0
        let name = CTAPCommand(rawValue: number).map { "\($0)" } ?? "\(number)"
        var status = CTAPStatus.ok
        defer { onAnswer(name, status) }
        guard running == nil else {
            status = .channelBusy
            return [status.rawValue]
        }
        running = Running(report: report, hold: hold)
        defer {
            if running?.hasPrompted == true { promptLimit.end(at: effects.clock.now()) }
            running = nil
        }
        do throws(CTAPStatus) {
            let answer = try await answer(to: request)
            return [status.rawValue] + (answer.isEmpty ? [] : CBORValue.map(answer).encoded)
        } catch {
            status = Task.isCancelled ? .keepaliveCancel : error
            if status == .keepaliveCancel || status == .userActionTimeout { await abandon() }
            return [status.rawValue]
        }
    }

    /// No program has the device open, so the request will be cancelled. Call it only if the
    /// request was not cancelled before.
    package func disconnect() { running?.isDisconnected = true }

    private func answer(to request: [UInt8]) async throws(CTAPStatus) -> Answer {
        guard let first = request.first, let command = CTAPCommand(rawValue: first) else {
            throw .invalidCommand
        }
        let body = request.dropFirst()
        guard body.isEmpty || command.hasParameters else { throw .invalidLength }
        if command != .getNextAssertion { remaining = nil }
        switch command {
        case .makeCredential:
            return try await makeCredential(RegistrationRequest(CTAPParameters(body)))
        case .getAssertion:
            return try await getAssertion(
                AssertionRequest(CTAPParameters(body), agreement: agreement))
        case .getNextAssertion: return try getNextAssertion()
        case .getInfo: return try await getInfo()
        case .clientPIN: return try await clientPIN(CTAPParameters(body))
        case .selection:
            try await select()
            return [:]
        case .reset: throw .notAllowed
        }
    }

    // MARK: State

    /// Without `pinUvAuthToken` and `clientPin`, clients request built-in verification with each
    /// operation.
    private func getInfo() async throws(CTAPStatus) -> Answer {
        let state = try await state()
        var info: Answer = [
            0x01: .array([.text("FIDO_2_0")]),
            0x02: .array([.text("credProtect"), .text("hmac-secret")]),
            0x03: .bytes(aaguid.bytes),
            0x04: .map([
                "rk": .boolean(true), "up": .boolean(true), "uv": .boolean(state.canVerify),
            ]),
            0x05: .integer(CTAPHIDDevice.maximumRequestBytes),
            0x06: .array([.integer(2), .integer(1)]),
            0x07: .integer(16),
            // 16 IDs of this length fit into a message.
            0x08: .integer(Passkey.idBytes),
            0x09: .array([.text("usb")]),
            0x0A: .array([.map(["alg": .integer(-7), "type": .text("public-key")])]),
            // The firmware's version.
            0x0E: .integer(1),
            0x14: .integer(max(0, PasskeyStore.maximumCount - state.count)),
            0x16: .array([.text("packed"), .text("none")]),
        ]
        if !state.methods.isEmpty { info[0x12] = .integer(state.methods.rawValue) }
        return info
    }

    /// getKeyAgreement and getUVRetries.
    private func clientPIN(_ parameters: CTAPParameters) async throws(CTAPStatus) -> Answer {
        switch try parameters.integer(2) {
        case 2:
            guard let version = try parameters.integer(1) else { throw .missingParameter }
            guard HMACSecret.Version(rawValue: version) != nil else { throw .invalidParameter }
            return [1: agreement.publicKey]
        case 7:
            let state = try await state()
            return [5: .integer(state.attemptsLeft ?? (state.canVerify ? 3 : 0))]
        case nil: throw .missingParameter
        default: throw .invalidSubcommand
        }
    }

    private func state() async throws(CTAPStatus) -> PasskeyState {
        try await enter(.processing)
        let state = await effects.state()
        guard !Task.isCancelled else { throw .keepaliveCancel }
        return state
    }

    // MARK: Progress

    /// Reports what the request waits for next, and ends a request that the client has cancelled.
    func enter(_ status: KeepaliveStatus) async throws(CTAPStatus) {
        if status == .processing { running?.deadline = nil }
        if let report = running?.report, running?.status != status {
            running?.status = status
            await report(status)
        }
        guard !Task.isCancelled else { throw .keepaliveCancel }
    }

    /// Waits for the user. The task of `effect` is cancelled when the user's time is over or the
    /// client cancels the request.
    ///
    /// - Parameter limit: The user's time; nil for the rest of the last one.
    func waitForUser<Value: Sendable>(
        _ limit: Duration?, _ effect: @escaping @Sendable () async throws(CTAPStatus) -> Value
    ) async throws(CTAPStatus) -> Value {
        let clock = effects.clock
        let rest = limit == nil ? running?.deadline : nil
        let deadline = rest ?? clock.now() + (limit ?? Self.questionTime)
        running?.deadline = deadline
        try await enter(.userPresenceNeeded)
        let result = await withTaskGroup(of: Result<Value, CTAPStatus>.self) { group in
            group.addTask {
                do throws(CTAPStatus) {
                    return .success(try await effect())
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                try? await clock.sleep(deadline)
                return .failure(.userActionTimeout)
            }
            let first = await group.next() ?? .failure(.other)
            group.cancelAll()
            await group.waitForAll()
            return first
        }
        guard !Task.isCancelled else { throw .keepaliveCancel }
        return try result.get()
    }

    /// Stays silent, without a prompt: only the time limit or the client ends the request.
    func hold() async throws(CTAPStatus) -> Never {
        running?.isPrompting = false
        await running?.hold()
        try await waitForUser(nil) { try? await Task.sleep(for: .seconds(3600)) }
        throw .userActionTimeout
    }

    // MARK: Prompts

    /// Checks that a request may prompt, before it is known whether it will: the answer reveals no
    /// passkey. Waits if another prompt ended a moment ago.
    ///
    /// - Parameter site: nil for a request without a site.
    func admit(_ site: String?) async throws(CTAPStatus) {
        let clock = effects.clock
        running?.site = site
        while true {
            let openers = await effects.openers()
            running?.openers = openers
            if let status = promptLimit.refusal(of: site, to: openers, at: clock.now()) {
                throw status
            }
            guard let end = promptLimit.pause(at: clock.now()) else { return }
            try? await clock.sleep(end)
            guard !Task.isCancelled else { throw .keepaliveCancel }
        }
    }

    /// Holds a request without a prompt.
    func holdUnknown(_ rpID: String) async throws(CTAPStatus) -> Never {
        promptLimit.hold(rpID, at: effects.clock.now())
        try await hold()
    }

    func question(
        _ purpose: PasskeyQuestion.Purpose, site: String? = nil, accounts: [String] = [],
        usesPRF: Bool = false
    ) -> PasskeyQuestion {
        PasskeyQuestion(
            purpose: purpose, site: site.map { String(oneLine: $0, limit: 253) },
            accounts: accounts, usesPRF: usesPRF, openers: running?.openers,
            timeLimit: Self.questionTime)
    }

    /// Prompts for the selection of a device.
    func select() async throws(CTAPStatus) {
        try await admit(nil)
        try await confirm(question(.selectDevice))
    }

    /// Prompts without a use of a key.
    func confirm(_ question: PasskeyQuestion) async throws(CTAPStatus) {
        _ = try await ask(question)
        conclude(.accepted)
    }

    /// Prompts, and returns the index of the chosen account. This choice is not consent yet if a
    /// verification follows: the prompt may leave the question to the verification.
    func ask(
        _ question: PasskeyQuestion, using key: HardwareKey? = nil
    ) async throws(CTAPStatus) -> Int {
        running?.hasPrompted = true
        running?.isPrompting = true
        let effects = effects
        let choice = try await waitForUser(Self.questionTime) {
            await effects.choose(question, using: key)
        }
        switch choice {
        case .use(let account): return account
        case .notHere: try await hold()
        case .no:
            conclude(.refused)
            throw .operationDenied
        }
    }

    /// Verifies the user and signs with a passkey.
    func sign(
        _ use: PasskeyUse, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> ECDSASignature {
        let effects = effects
        do throws(CTAPStatus) {
            let signature = try await waitForUser(Self.verificationTime) {
                () async throws(CTAPStatus) in
                try await effects.sign(use, authorizedBy: presence)
            }
            conclude(.accepted)
            return signature
        } catch {
            guard error == .operationDenied else { throw error }
            guard await effects.refusal(of: use.question) != .notHere else { try await hold() }
            conclude(.refused)
            throw error
        }
    }

    /// The user has answered the prompt.
    private func conclude(_ answer: PromptLimit.Answer) {
        running?.isPrompting = false
        promptLimit.count(answer, to: running?.site, at: effects.clock.now())
    }

    /// The request ends, and the user has not answered its prompt.
    ///
    /// The end is not suspicious if one program had the device open, and has closed it: an
    /// interrupted `ssh` can be repeated at once.
    private func abandon() async {
        guard let prompt = running, prompt.isPrompting else { return }
        var openers = prompt.openers
        if !prompt.isDisconnected { openers = openers?.union(await effects.openers()) }
        promptLimit.abandon(
            prompt.site, of: openers,
            isSuspicious: !prompt.isDisconnected || openers?.isOne != true,
            at: effects.clock.now())
    }
}
