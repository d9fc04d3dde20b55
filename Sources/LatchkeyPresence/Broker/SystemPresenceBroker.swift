internal import FoundationEssentials
internal import Glibc
public import Latchkey

/// The presence broker of this machine: the service `latchkey-presenced` on the system bus, or on the bus that
/// `DBUS_SYSTEM_BUS_ADDRESS` names. A connection lasts for one operation.
///
/// Nothing that it says is believed but by the TPM.
public struct SystemPresenceBroker: ApprovalService {
    /// Longer than the service lets a person take.
    private static let patience: Duration = .seconds(60)

    let busAddress: String?
    private let onProgress: @Sendable (FingerProgress, String) -> Void

    /// - Parameters:
    ///   - busAddress: Of another bus than the system's.
    ///   - onProgress: What to tell the person: how it goes, and the service's own words about who asks, for
    ///     what.
    public init(
        busAddress: String? = nil, onProgress: @escaping @Sendable (FingerProgress, String) -> Void = { _, _ in }
    ) {
        self.busAddress = busAddress
        self.onProgress = onProgress
    }

    public func fingerState() async -> FingerState {
        do throws(KeystoreError) {
            guard let state = PresenceWire.state(try await call(.state, [], "look at the fingerprint reader")) else {
                return .notAvailable("the presence broker speaks another language")
            }
            return state
        } catch {
            return .notAvailable(error.reason)
        }
    }

    package func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        let operation = "ask the presence broker for its terms"
        guard
            let terms = PresenceWire.terms(try await call(.terms, PresenceWire.arguments(policy), operation)),
            terms.user == geteuid()
        else { throw Self.strange(operation) }
        return terms
    }

    package func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        let operation = "make room for your PIN"
        guard let pin = PresenceWire.unsetPIN(try await call(.makePIN, [], operation)) else {
            throw Self.strange(operation)
        }
        return pin
    }

    package func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        let operation = "ask for your finger"
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

    /// Whether the machine has no system bus, or the bus says that the service's name has no owner and that no service
    /// can be started for it. A bus that refuses, fails or does not answer is no such statement.
    package func isAbsent() async -> Bool {
        do throws(BusError) {
            return try await Bus.system(at: busAddress).isUnserved(PresenceWire.name)
        } catch {
            return error == .noBus
        }
    }

    /// Begins the count of a user's wrong PINs anew. For the administrator.
    package func resetPIN(of user: UInt32) async throws(KeystoreError) {
        _ = try await call(.resetPIN, [.uint32(user)], "reset the PIN of the user \(user)")
    }

    private func cancellable(_ bus: Bus, _ request: ApprovalRequest) async -> Bus.Reply {
        let (replies, sink) = AsyncStream.makeStream(of: Bus.Reply.self)
        await bus.send(PresenceWire.target(.approve), PresenceWire.arguments(request), timeout: Self.patience) {
            sink.yield($0)
        }
        // Sent by now, so that no cancellation can overtake it. The service answers what is cancelled too, with ‘declined’.
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
            operation: operation, code: .refused, reason: "the presence broker's answer makes no sense",
            recovery: "Have an administrator look at latchkey-presenced.")
    }
}
