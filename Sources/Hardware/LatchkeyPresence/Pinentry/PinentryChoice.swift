package import Latchkey
internal import LatchkeyPlatform

/// Asks a question with two or three buttons, with the system's pinentry program (its command
/// `CONFIRM`), and shows messages.
///
/// No key that the user may press for another window is consent: if Return chooses the first button
/// of the program, the user types a word instead (`GETPIN`).
package struct PinentryChoice: Sendable {
    /// The labels of the buttons.
    package struct Buttons: Hashable, Sendable {
        package let accept: String
        /// The second choice; nil for two buttons.
        package let other: String?
        package let cancel: String

        package init(accept: String, other: String?, cancel: String) {
            (self.accept, self.other, self.cancel) = (accept, other, cancel)
        }
    }

    package enum Answer: Hashable, Sendable {
        case accepted
        /// The second choice.
        case other
        /// The second choice in a window with two buttons only. It replaces the cancel button, so
        /// the user cannot refuse with a button.
        case otherOfTwo
        case cancelled
        /// The time has passed, or the task was cancelled and the program has closed its window.
        case unanswered
    }

    private let program: String
    private let environment: [String: String]
    private let settings: PinentrySettings

    /// - Parameters:
    ///   - environment: As for ``PinentryPresence``.
    ///   - hasTerminal: Whether the program may use the terminal of this process.
    package init(environment: [String: String], hasTerminal: Bool = true) {
        settings = PinentrySettings(environment: environment, hasTerminal: hasTerminal)
        program = environment["PINENTRY_PROGRAM"] ?? "pinentry"
        self.environment = environment
    }

    /// Shows the question and waits for the answer. Cancelling the task closes the window at once.
    ///
    /// - Parameter isConsent: Whether nothing that only the user can give, such as a PIN, follows
    ///   the first choice.
    /// - Throws: `KeystoreError`: `unavailable` if the program is missing or cannot prompt,
    ///   `failed` if it does not follow the protocol.
    package func ask(
        _ question: String, _ buttons: Buttons, isConsent: Bool, within limit: Duration
    ) async throws(KeystoreError) -> Answer {
        try await exchange(within: limit) { (exchange, process) throws(KeystoreError) in
            try exchange.ask(question, buttons, isConsent: isConsent, process)
        } ?? .unanswered
    }

    /// Shows a message until the user closes it. Cancelling the task closes it at once.
    package func show(_ message: String, within limit: Duration) async throws(KeystoreError) {
        _ = try await exchange(within: limit) { (exchange, process) throws(KeystoreError) in
            try exchange.show(message, process)
        }
    }

    /// Checks that the program can show windows here, without a window.
    ///
    /// - Throws: `KeystoreError` with the code `unavailable` or `failed`.
    package func check(within limit: Duration = .seconds(10)) async throws(KeystoreError) {
        let answer = try await exchange(within: limit) {
            (exchange, process) throws(KeystoreError) in try exchange.check(process)
        }
        guard answer != nil else {
            throw PinentryDialogue.broken("pinentry did not answer in time")
        }
    }

    /// - Returns: nil if there was no answer in time, or the task was cancelled.
    private func exchange<Value: Sendable>(
        within limit: Duration,
        _ body:
            @escaping @Sendable (inout PinentryExchange, borrowing PinentryProcess)
            throws(KeystoreError) -> Value?
    ) async throws(KeystoreError) -> Value? {
        let (program, environment, settings) = (program, environment, settings)
        return try await onOwnThread { wakeUp throws(KeystoreError) in
            let process = try PinentryProcess(program: program, environment: environment)
            let reader = DeadlineReader(
                descriptor: process.descriptor, wakeUp: wakeUp, deadline: .now + limit)
            var exchange = PinentryExchange(
                reader: reader, settings: settings, limit: limit)
            guard try exchange.begin(process), let value = try body(&exchange, process) else {
                return nil
            }
            process.leave(wakeUp)
            return value
        }
    }
}
