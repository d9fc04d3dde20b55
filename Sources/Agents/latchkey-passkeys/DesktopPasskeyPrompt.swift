import FoundationEssentials
import Latchkey
import LatchkeyPasskeys
import LatchkeyPresence
import LatchkeyServices
import Logging
import Synchronization

/// Prompts for the use of passkeys in windows of the system's pinentry program, and for a finger
/// through the presence broker.
///
/// For a login with an enrolled finger, one window waits for the finger and offers the PIN, another
/// device, or a refusal. For a new passkey, without an enrolled finger, or if the passkey accepts
/// no PIN now, a window asks for the choice first, before the PIN or the finger. If an accepted
/// request fails, a window states why.
final class DesktopPasskeyPrompt: PasskeyPrompt {
    private let window: PinentryChoice
    private let pins: any PresenceAuthority
    private let broker: (any ApprovalService)?
    private let log: Logger
    private let isLocked: @Sendable () async -> Bool
    /// The user's choice in the window of the running verification.
    private let choice = Mutex<(question: PasskeyQuestion, made: PasskeyChoice)?>(nil)
    /// The window about the last failure.
    private let message = Mutex<Task<Void, Never>?>(nil)
    /// Whether the program showed no fault at the last check; nil before the first one.
    private let isUsable = Mutex<Bool?>(nil)

    /// - Parameters:
    ///   - pins: Prompts for PINs.
    ///   - broker: Verifies fingers; nil if only PINs are used.
    ///   - isLocked: Whether the user's session is locked now.
    init(
        environment: [String: String], pins: any PresenceAuthority, broker: (any ApprovalService)?,
        log: Logger,
        isLocked: @escaping @Sendable () async -> Bool = { false }
    ) {
        window = PinentryChoice(environment: environment)
        self.pins = pins
        self.broker = broker
        self.log = log
        self.isLocked = isLocked
    }

    func choose(
        _ question: PasskeyQuestion, promptsForPIN: @Sendable () async -> Bool
    ) async -> PasskeyChoice {
        message.withLock { $0.take() }?.cancel()
        // The user cannot see a window behind the lock screen. Another device can still answer.
        guard await !isLocked() else {
            log.notice(
                "the session is locked: no prompt", metadata: ["site": "\(question.site ?? "")"])
            return .notHere
        }
        // The window that offers the PIN states the question. Without a window, a touch would sign
        // without a text.
        var needsPIN = false
        if question.offersFingerOrPIN { needsPIN = await promptsForPIN() }
        if needsPIN, await isFingerReady() { return .use(0) }
        // Only the user can give the PIN, unless it is in a file.
        return await ask(question, isConsent: !needsPIN || !pins.isInteractive)
    }

    func canPrompt() async -> Bool {
        let earlier = isUsable.withLock(\.self)
        if earlier == true { return true }
        do throws(KeystoreError) {
            try await window.check()
        } catch {
            if earlier == nil {
                log.error(
                    "passkeys cannot be used: \(error.reason)",
                    metadata: ["recovery": "\(error.advice)"])
            }
            isUsable.withLock { $0 = false }
            return false
        }
        isUsable.withLock { $0 = true }
        return true
    }

    func report(_ error: KeystoreError, of question: PasskeyQuestion) async {
        let (window, limit) = (window, question.timeLimit)
        let text = "\(question.failure): \(error.reason). \(error.advice)"
        let shown = Task { _ = try? await window.show(text, within: limit) }
        message.withLock { $0 = shown }
    }

    func verification(for question: PasskeyQuestion) -> any PresenceAuthority {
        choice.withLock { $0 = nil }
        return PasskeyVerification(
            prompt: self, question: question, pins: pins, broker: broker)
    }

    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice {
        choice.withLock { choice in
            defer { choice = nil }
            guard let choice, choice.question == question else { return .no }
            return choice.made
        }
    }

    /// Any program can ask any number of times, so this is not in the usual log.
    func wink() async { log.debug("a program asks for attention to this device") }

    fileprivate func isFingerReady() async -> Bool {
        guard let broker, case .ready = await broker.fingerState() else { return false }
        return true
    }

    // MARK: Windows

    /// Asks for the choice, and for the account if there are several: pinentry has no list, so one
    /// window for each. Of several windows, the last one is the consent.
    private func ask(_ question: PasskeyQuestion, isConsent: Bool) async -> PasskeyChoice {
        let accept =
            question.accounts.count > 1
            ? "Choose account" : question.purpose == .alreadyRegistered ? "OK" : "Use"
        switch await show(
            question.text, within: question.timeLimit, accept: accept, other: Self.notHere,
            isConsent: isConsent && question.accounts.count <= 1)
        {
        case .other, .otherOfTwo, .unanswered: return .notHere
        case .cancelled: return .no
        case .accepted: break
        }
        guard question.accounts.count > 1 else { return .use(0) }
        var index = 0
        while !Task.isCancelled {
            let position = "Account \(index + 1) of \(question.accounts.count) at \(question.place)"
            let text = "\(position): \(String(quoted: question.accounts[index], limit: 64))"
            switch await show(
                text, within: question.timeLimit, accept: "Use", other: "Next account",
                isConsent: isConsent)
            {
            case .accepted: return .use(index)
            case .other: index = (index + 1) % question.accounts.count
            case .otherOfTwo:
                // These windows have no button that ends the choice.
                index += 1
                if index == question.accounts.count { return .notHere }
            case .cancelled: return .no
            case .unanswered: return .notHere
            }
        }
        return .notHere
    }

    private static let notHere = "Not here"

    /// Offers the PIN while the reader waits for a finger.
    ///
    /// - Returns: Whether the user wants to type the PIN.
    fileprivate func offerPIN(_ question: PasskeyQuestion) async -> Bool {
        let text = "\(question.text)\n\nTouch the fingerprint reader, or use your PIN."
        let made: PasskeyChoice
        // The end of the verification closes the window.
        let limit = max(question.timeLimit, Authenticator.verificationTime)
        switch await show(
            text, within: limit, accept: "Use PIN", other: Self.notHere,
            isConsent: !pins.isInteractive)
        {
        case .accepted: return true
        case .cancelled: made = .no
        case .other, .otherOfTwo, .unanswered: made = .notHere
        }
        // A finger or the end of the request has closed the window: the verification ends without a
        // choice.
        guard !Task.isCancelled else { return false }
        choice.withLock { $0 = (question, made) }
        return false
    }

    /// Without a window there is no consent: the request stays unanswered, so that the user can use
    /// another device.
    private func show(
        _ text: String, within limit: Duration, accept: String, other: String, isConsent: Bool
    ) async -> PinentryChoice.Answer {
        do throws(KeystoreError) {
            return try await window.ask(
                text, .init(accept: accept, other: other, cancel: "No"), isConsent: isConsent,
                within: limit)
        } catch {
            log.error(
                "could not prompt: \(error.reason)", metadata: ["recovery": "\(error.advice)"])
            return .unanswered
        }
    }
}

/// Obtains the finger or PIN for one request.
private struct PasskeyVerification: PresenceAuthority {
    let prompt: DesktopPasskeyPrompt
    let question: PasskeyQuestion
    let pins: any PresenceAuthority
    let broker: PresenceBroker?
    /// Whether a window asks for the finger or the PIN.
    private let isOffered: Flag

    init(
        prompt: DesktopPasskeyPrompt, question: PasskeyQuestion, pins: any PresenceAuthority,
        broker: (any ApprovalService)?
    ) {
        let isOffered = Flag()
        (self.prompt, self.question, self.pins) = (prompt, question, pins)
        self.isOffered = isOffered
        self.broker = broker.map {
            PresenceBroker(PatientReader(broker: $0) { isOffered.isSet.withLock(\.self) })
        }
    }

    /// Each use of a passkey has its own proof.
    var acceptsEarlierProof: Bool { false }
    var isInteractive: Bool { pins.isInteractive }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        if request.purpose == .current, question.offersFingerOrPIN, await prompt.isFingerReady() {
            isOffered.isSet.withLock { $0 = true }
            defer { isOffered.isSet.withLock { $0 = false } }
            guard await prompt.offerPIN(question) else {
                return .declined("the user did not allow it")
            }
        }
        return try await pins.pin(request)
    }

    func notice(_ notice: PresenceNotice) async { await pins.notice(notice) }

    func accepted() { pins.accepted() }
    func rejected() { pins.rejected() }

    private final class Flag: Sendable {
        let isSet = Mutex(false)
    }
}

/// A broker whose reader waits again after a finger that does not match, while a window asks for a
/// finger. The broker limits the attempts.
private struct PatientReader: ApprovalService {
    let broker: any ApprovalService
    let isWindowOpen: @Sendable () -> Bool

    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        while true {
            let answer = try await broker.approve(request)
            guard case .notRecognised = answer, isWindowOpen(), !Task.isCancelled else {
                return answer
            }
        }
    }

    func fingerState() async -> FingerState { await broker.fingerState() }
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        try await broker.terms(for: policy)
    }
    func complete(
        _ ticket: Data, _ use: ApprovalRequest.Use
    ) async throws(KeystoreError) -> PresenceApproval {
        try await broker.complete(ticket, use)
    }
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        try await broker.makeUserPIN()
    }
    func isAbsent() async -> Bool { await broker.isAbsent() }
}
