internal import FoundationEssentials
internal import Glibc
public import Latchkey

/// The presence broker of this machine: the service `latchkey-presenced` on the system bus, or on the bus that
/// `DBUS_SYSTEM_BUS_ADDRESS` names. Each operation has its own connection.
///
/// The TPM checks the broker's approvals; no other part of Latchkey trusts them.
public struct SystemPresenceBroker: ApprovalService {
    /// The timeout of a request. Longer than the service's own limit.
    private static let patience: Duration = .seconds(60)

    let busAddress: String?
    private let onProgress: @Sendable (FingerProgress, String) -> Void

    /// - Parameters:
    /// - busAddress: The address of a bus to use instead of the system bus.
    /// - onProgress: Called with the progress, and the service's description of the requester and the reason.
    public init(
        busAddress: String? = nil, onProgress: @escaping @Sendable (FingerProgress, String) -> Void = { _, _ in }
    ) {
        self.busAddress = busAddress
        self.onProgress = onProgress
    }

    public func fingerState() async -> FingerState {
        do throws(KeystoreError) {
            guard let state = PresenceWire.state(try await call(.state, [], "read the state of the fingerprint reader"))
            else {
                return .notAvailable("the presence broker's answer is not valid")
            }
            return state
        } catch {
            return .notAvailable(error.reason)
        }
    }

    package func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        let operation = "read the presence broker's terms"
        guard
            let terms = PresenceWire.terms(try await call(.terms, PresenceWire.arguments(policy), operation)),
            terms.user == geteuid()
        else { throw Self.strange(operation) }
        return terms
    }

    package func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        let operation = "allocate your PIN in the TPM"
        guard let pin = PresenceWire.unsetPIN(try await call(.makePIN, [], operation)) else {
            throw Self.strange(operation)
        }
        return pin
    }

    package func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        let operation = "prompt for your finger"
        let onProgress = onProgress
        let bus = try await connect(operation)
        let result: Bus.Reply
        do throws(BusError) {
            _ = try await bus.subscribe(PresenceWire.progressRule) { signal in
                if let prompt = PresenceWire.prompt(signal.arguments) { onProgress(prompt.progress, prompt.text) }
            }
            result = await cancellable(bus, request)
        } catch {
            throw PresenceWire.keystoreError(error, operation)
        }
        switch result {
        case .success(let arguments):
            guard let approval = PresenceWire.approval(arguments) else { throw Self.strange(operation) }
            return .approved(approval)
        case .failure(let error):
            if Task.isCancelled { return .declined("it was cancelled") }
            if let answer = PresenceWire.answer(error) { return answer }
            throw PresenceWire.keystoreError(error, operation)
        }
    }

    /// Whether the machine has no system bus, or the bus reports that the service's name has no owner and can't be
    /// activated. A bus that refuses, fails or does not answer proves nothing.
    package func isAbsent() async -> Bool {
        do throws(BusError) {
            return try await Bus.system(at: busAddress).isUnserved(PresenceWire.name)
        } catch {
            return error == .noBus
        }
    }

    /// Resets the count of a user's wrong PINs. Only for the administrator.
    package func resetPIN(of user: UInt32) async throws(KeystoreError) {
        _ = try await call(.resetPIN, [.uint32(user)], "reset the PIN of the user \(user)")
    }

    private func cancellable(_ bus: Bus, _ request: ApprovalRequest) async -> Bus.Reply {
        let (replies, sink) = AsyncStream.makeStream(of: Bus.Reply.self)
        await bus.send(PresenceWire.target(.approve), PresenceWire.arguments(request), timeout: Self.patience) {
            sink.yield($0)
        }
        // The request is already sent, so the cancellation arrives after it. The service answers a cancelled request
        // with ‘declined’.
        let reply = Task { await replies.first { _ in true } ?? .failure(.closed) }
        return await withTaskCancellationHandler {
            await reply.value
        } onCancel: {
            Task { await bus.send(PresenceWire.target(.cancel)) { _ in } }
        }
    }

    private func call(
        _ method: PresenceWire.Method, _ arguments: [BusValue], _ operation: String
    ) async throws(KeystoreError) -> [BusValue] {
        let bus = try await connect(operation)
        do throws(BusError) {
            return try await bus.call(PresenceWire.target(method), arguments, timeout: .seconds(20))
        } catch {
            throw PresenceWire.keystoreError(error, operation)
        }
    }

    private func connect(_ operation: String) async throws(KeystoreError) -> Bus {
        do throws(BusError) {
            return try await Bus.system(at: busAddress)
        } catch {
            throw PresenceWire.keystoreError(error, operation)
        }
    }

    private static func strange(_ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .refused, reason: "the presence broker's answer is not valid",
            recovery: "Ask an administrator to check latchkey-presenced.")
    }
}

extension SystemPresenceBroker {
    /// All messages of the broker for this user, for requests of all programs. For a desktop that shows them in one
    /// place.
    ///
    /// The stream continues after the service restarts, and ends when the bus ends. Release it to stop.
    package func prompts() async throws(KeystoreError) -> AsyncStream<PresencePrompt> {
        let operation = "watch the presence broker's prompts"
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
            throw PresenceWire.keystoreError(error, operation)
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
