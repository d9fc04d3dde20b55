package import FoundationEssentials
internal import Glibc
public import Latchkey

/// The presence broker of this machine: the service `latchkey-presenced` on the system bus, or on
/// the bus that `DBUS_SYSTEM_BUS_ADDRESS` names. Each operation has its own connection.
///
/// The TPM checks the broker's approvals; no other part of Latchkey trusts them.
public struct SystemPresenceBroker: ApprovalService {
    /// The timeout of a request. Longer than the service's own limit.
    private static let timeout: Duration = .seconds(60)

    let busAddress: String?
    /// The directories with the files of the system bus's services (D-Bus Specification, section
    /// "Message Bus Starting Services"). Empty for a bus that the caller or a variable names: its
    /// services are not those of the machine.
    package var serviceDirectories: [String]
    let onProgress: @Sendable (FingerProgress, String) -> Void

    /// - Parameters:
    /// - busAddress: The address of a bus to use instead of the system bus.
    /// - onProgress: Called with the progress, and the service's description of the requester and
    ///   the reason.
    public init(
        busAddress: String? = nil,
        onProgress: @escaping @Sendable (FingerProgress, String) -> Void = { _, _ in }
    ) {
        self.busAddress = busAddress
        serviceDirectories =
            busAddress == nil && getenv("DBUS_SYSTEM_BUS_ADDRESS") == nil
            ? ["/usr/local/share", "/usr/share", "/lib"].map { "\($0)/dbus-1/system-services" } : []
        self.onProgress = onProgress
    }

    public func fingerState() async -> FingerState {
        do throws(KeystoreError) {
            return try await call(.state, [], PresenceWire.state)
        } catch {
            return .notAvailable(error.reason)
        }
    }

    package func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        try await call(.terms, PresenceWire.arguments(policy)) { arguments in
            PresenceWire.terms(arguments).flatMap { $0.user == geteuid() ? $0 : nil }
        }
    }

    package func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        try await call(.makePIN, [], PresenceWire.unsetPIN)
    }

    package func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        let isSingle = request.further.isEmpty
        do throws(BusError) {
            let arguments = try await prompting(
                on: try await prompter(), isSingle ? .approve : .approveSeveral,
                isSingle
                    ? PresenceWire.arguments(request) : PresenceWire.arguments(several: request)
            ).get()
            let approval =
                isSingle
                ? PresenceWire.approval(arguments) : PresenceWire.severalApproval(arguments)
            guard let approval else { throw PresenceWire.invalidAnswer }
            return .approved(approval)
        } catch {
            // The answer to a request that was sent before the cancellation.
            if Task.isCancelled { return .declined("the request was cancelled") }
            if let answer = PresenceWire.answer(error) { return answer }
            throw await withEnd(PresenceWire.keystoreError(error))
        }
    }

    package func complete(
        _ ticket: Data, _ use: ApprovalRequest.Use
    ) async throws(KeystoreError) -> PresenceApproval {
        try await call(
            .complete, PresenceWire.arguments(completing: ticket, use), PresenceWire.approval)
    }

    /// The error with the end of a lockout added. The broker reports the end as a time only in the
    /// answer of `State`.
    func withEnd(_ error: KeystoreError) async -> KeystoreError {
        guard error.code == .lockedOut, case .lockedOut(let until?) = await fingerState() else {
            return error
        }
        return KeystoreError(
            operation: error.operation, code: error.code, reason: error.reason,
            recovery: error.recoveryAction.then("The lockout ends by \(LocalTime.text(until))."),
            lockedOutUntil: until, underlying: error.underlying)
    }

    /// Whether the service is not installed, and the machine has no system bus, or the bus reports
    /// that the service's name has no owner and cannot be activated. A bus that refuses, fails or
    /// does not answer proves nothing.
    package func isAbsent() async -> Bool {
        guard !isInstalled else { return false }
        do throws(BusError) {
            return try await Bus.system(at: busAddress).isUnserved(PresenceWire.name)
        } catch {
            return error == .noBus
        }
    }

    /// Whether the system bus can start the service when the bus runs.
    private var isInstalled: Bool {
        serviceDirectories.contains { access("\($0)/\(PresenceWire.name).service", F_OK) == 0 }
    }

    /// Resets the count of a user's wrong PINs. Only for the administrator.
    package func resetPIN(of user: UInt32) async throws(KeystoreError) {
        try await call(.resetPIN, [.uint32(user)]) { _ in () }
    }

    /// A connection for one prompt, which reports the progress.
    func prompter() async throws(BusError) -> Bus {
        let bus = try await Bus.system(at: busAddress)
        _ = try await bus.subscribe(PresenceWire.progressRule) { [onProgress] signal in
            if let prompt = PresenceWire.prompt(signal.arguments) {
                onProgress(prompt.progress, prompt.text)
            }
        }
        return bus
    }

    /// Calls a method that prompts. Supports task cancellation.
    func prompting(
        on bus: Bus, _ method: PresenceWire.Method, _ arguments: [BusValue]
    ) async -> Bus.Reply {
        let (replies, sink) = AsyncStream.makeStream(of: Bus.Reply.self)
        await bus.send(PresenceWire.target(method), arguments, timeout: Self.timeout) {
            sink.yield($0)
        }
        // The request is already sent, so the cancellation arrives after it. The service answers a
        // cancelled request with ‘declined’.
        let reply = Task { await replies.first { _ in true } ?? .failure(.closed) }
        return await withTaskCancellationHandler {
            await reply.value
        } onCancel: {
            Task { await bus.send(PresenceWire.target(.cancel)) { _ in } }
        }
    }

    /// - Parameter decode: Returns nil for an answer that is not valid.
    func call<R>(
        _ method: PresenceWire.Method, _ arguments: [BusValue], _ decode: ([BusValue]) -> R?
    ) async throws(KeystoreError) -> R {
        do throws(BusError) {
            let bus = try await Bus.system(at: busAddress)
            let answer = try await bus.call(
                PresenceWire.target(method), arguments, timeout: .seconds(20))
            guard let result = decode(answer) else { throw PresenceWire.invalidAnswer }
            return result
        } catch {
            throw PresenceWire.keystoreError(error)
        }
    }
}

extension SystemPresenceBroker {
    /// All messages of the broker for this user, for requests of all programs. For a desktop that
    /// shows them in one place.
    ///
    /// The stream continues after the service restarts, and ends when the bus ends. Release it to
    /// stop.
    package func prompts() async throws(KeystoreError) -> AsyncStream<PresencePrompt> {
        let (prompts, sink) = AsyncStream.makeStream(of: PresencePrompt.self)
        do throws(BusError) {
            let bus = try await Bus.system(at: busAddress) { sink.finish() }
            _ = try await bus.subscribe(PresenceWire.progressRule) { signal in
                if let prompt = PresenceWire.prompt(signal.arguments) { sink.yield(prompt) }
            }
            // A restarted service has no subscribers.
            _ = try await bus.subscribe(.ownerChanges(of: PresenceWire.name)) { [weak bus] change in
                guard change.arguments.last?.string?.isEmpty == false, let bus else { return }
                Task { await bus.send(PresenceWire.target(.subscribe)) { _ in } }
            }
            _ = try await bus.call(PresenceWire.target(.subscribe))
            // The connection lives as long as the stream.
            sink.onTermination = { _ in withExtendedLifetime(bus) {} }
        } catch {
            throw PresenceWire.keystoreError(error)
        }
        return prompts
    }
}

/// A message of the presence broker for the user whose finger it waits for.
package struct PresencePrompt: Hashable, Sendable {
    /// The progress.
    package let progress: FingerProgress
    /// The service's description of the requester and the reason.
    package let text: String

    /// Makes a prompt.
    package init(progress: FingerProgress, text: String) {
        self.progress = progress
        self.text = text
    }
}
