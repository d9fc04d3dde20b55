import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence

/// The machine's fingerprint reader, through fprintd.
struct FingerprintReader: Sendable {
    private static let service = "net.reactivated.Fprint"
    private static let device = "net.reactivated.Fprint.Device"

    /// The signal that fprintd broadcasts when a finger was enrolled on any of its readers.
    static let enrolmentRule = SignalRule(from: service, interface: device, member: "EnrollStatus")
    static let enrolmentCompleted = "enroll-completed"

    let bus: Bus

    /// A reader, and the unique name of the fprintd that manages it.
    struct Found: Sendable {
        let path: String
        let fprintd: String
    }

    /// - Throws: ``BusError`` if there is no fprintd or no reader.
    func find() async throws(BusError) -> Found {
        let arguments = try await bus.call(
            BusTarget(
                Self.service, "/net/reactivated/Fprint/Manager", "net.reactivated.Fprint.Manager",
                "GetDefaultDevice"))
        guard let path = arguments.first?.string,
            let fprintd = try await bus.owner(of: Self.service)
        else {
            throw BusError(
                name: "\(Self.service).Error.NoSuchDevice",
                message: "there is no fingerprint reader")
        }
        return Found(path: path, fprintd: fprintd)
    }

    /// The names of the fingers that a user has enrolled.
    func enrolledFingers(of user: String, in found: Found) async throws(BusError) -> [String] {
        do throws(BusError) {
            return try await bus.call(
                BusTarget(found.fprintd, found.path, Self.device, "ListEnrolledFingers"),
                [.string(user)]
            ).first?.strings ?? []
        } catch {
            guard error.name == "\(Self.service).Error.NoEnrolledPrints" else { throw error }
            return []
        }
    }

    /// Verifies one finger of one user.
    ///
    /// Supports task cancellation. The reader is released when this returns.
    func verify(
        _ user: String, in found: Found, within limit: Duration,
        onProgress: @escaping @Sendable (FingerProgress) async -> Void
    ) async -> VerificationOutcome {
        let (inputs, sink) = AsyncStream.makeStream(of: VerificationDialogue.Input.self)
        let subscriptions: [UInt64]
        do throws(BusError) {
            subscriptions = try await listen(to: found, sink)
        } catch {
            return .failed(error.message)
        }
        let clock = Task {
            try await Task.sleep(for: limit)
            sink.yield(.late)
        }
        // Cancellation is an input of the conversation, because fprintd must be told to stop. So
        // the task of the conversation is not cancelled.
        let conversation = Task {
            var dialogue = VerificationDialogue(fprintd: found.fprintd)
            var actions = dialogue.begin()
            var next = inputs.makeAsyncIterator()
            while true {
                for action in actions {
                    switch action {
                    case .claim:
                        await call("Claim", [.string(user)], found) { sink.yield(.claimed($0)) }
                    case .startVerification:
                        await call("VerifyStart", [.string("any")], found) {
                            sink.yield(.started($0))
                        }
                    case .stopVerification:
                        await call("VerifyStop", [], found) { _ in sink.yield(.stopped) }
                    case .release: await call("Release", [], found) { _ in sink.yield(.released) }
                    case .report(let progress): await onProgress(progress)
                    case .finish(let outcome): return outcome
                    }
                }
                guard let input = await next.next() else {
                    return VerificationOutcome.failed("the connection to fprintd ended")
                }
                actions = dialogue.receive(input)
            }
        }
        let outcome = await withTaskCancellationHandler {
            await conversation.value
        } onCancel: {
            sink.yield(.cancelled)
        }
        clock.cancel()
        for subscription in subscriptions { await bus.forget(subscription) }
        return outcome
    }

    /// Answers and signals go to one stream, in the bus's order.
    private func call(
        _ method: String, _ arguments: [BusValue], _ found: Found,
        _ receive: @escaping @Sendable (VerificationDialogue.BusOutcome) -> Void
    ) async {
        await bus.send(BusTarget(found.fprintd, found.path, Self.device, method), arguments) {
            reply in
            switch reply {
            case .success: receive(.done)
            case .failure(let error): receive(.refused(error.name, error.message))
            }
        }
    }

    private func listen(
        to found: Found, _ sink: AsyncStream<VerificationDialogue.Input>.Continuation
    ) async throws(BusError) -> [UInt64] {
        let status = SignalRule(
            from: Self.service, path: found.path, interface: Self.device, member: "VerifyStatus")
        var subscriptions = [
            try await bus.subscribe(status) { signal in
                guard let word = signal.arguments.first?.string,
                    let isDone = signal.arguments.dropFirst().first?.bool
                else { return }
                sink.yield(.status(word, isDone: isDone, sender: signal.sender))
            }
        ]
        do throws(BusError) {
            subscriptions.append(
                try await bus.subscribe(.ownerChanges(of: Self.service)) { change in
                    if change.arguments.last?.string != found.fprintd { sink.yield(.vanished) }
                })
            // The owner may have changed before the subscription.
            if try await bus.owner(of: Self.service) != found.fprintd { sink.yield(.vanished) }
        } catch {
            for subscription in subscriptions { await bus.forget(subscription) }
            throw error
        }
        return subscriptions
    }
}

/// fprintd's files with a user's fingerprints. fprintd does not report changes of them, and lists
/// only the fingers' names: a finger that was deleted and enrolled again has the same name.
struct EnrolledPrints: Sendable {
    static let defaultDirectory = "/var/lib/fprint"
    /// The maximum number of files: more than ten fingers on all readers of a machine.
    private static let maximumFiles = 500

    let directory: String

    /// A digest of the names, contents and modification times of a user's prints, 32 bytes.
    ///
    /// - Returns: nil if there are no prints, or they cannot be read.
    func digest(of user: String) -> Data? {
        guard !user.isEmpty, !user.contains("/"), user != ".", user != ".." else { return nil }
        let root = "\(directory)/\(user)"
        var hash = SHA256()
        var isEmpty = true
        guard let names = try? FileManager.default.subpathsOfDirectory(atPath: root),
            names.count <= Self.maximumFiles
        else { return nil }
        for name in names.sorted() {
            var status = stat()
            guard lstat("\(root)/\(name)", &status) == 0 else { return nil }
            guard status.st_mode & S_IFMT == S_IFREG else { continue }
            guard let bytes = FileManager.default.contents(atPath: "\(root)/\(name)") else {
                return nil
            }
            isEmpty = false
            hash.update(data: Array(name.utf8) + [0])
            for number in [
                UInt64(status.st_ino), UInt64(status.st_mtim.tv_sec),
                UInt64(status.st_mtim.tv_nsec),
            ] {
                withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
            }
            hash.update(data: Data(SHA256.hash(data: bytes)))
        }
        return isEmpty ? nil : Data(hash.finalize())
    }
}
