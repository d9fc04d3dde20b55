internal import Latchkey

/// Where a request comes from. The limits count for each part of it.
///
/// The client chooses neither part: the kernel reports the process, and the local ssh binds the
/// connection to the first server. A server can only add further bindings.
package struct RequestOrigin: Hashable, Sendable {
    package enum Source: Hashable, Sendable {
        /// A local program.
        case local
        /// The first server to which the connection is forwarded.
        case server(HostKey)
        /// A connection without a known server, because its binding failed. It counts as forwarded:
        /// a server must not get the rights of a local program by a binding that fails.
        case failedBinding
    }

    /// The process that connected. All channels of a forwarded agent come from the same ssh.
    package let process: Int32
    package let source: Source

    package init(process: Int32, source: Source) {
        (self.process, self.source) = (process, source)
    }

    package init(process: Int32, bindings: SessionBindings) {
        let source: Source =
            if let first = bindings.forwarders.first {
                .server(first)
            } else {
                bindings.hasFailed ? .failedBinding : .local
            }
        self.init(process: process, source: source)
    }

    package var isForwarded: Bool { source != .local }

    /// What a limit counts for.
    fileprivate enum Part: Hashable, Sendable {
        case localProcess(Int32)
        case allLocalProcesses
        case forwardingProcess(Int32)
        case server(HostKey)

        /// The number of refusals in a row without a quiet time. A user can refuse the keys that
        /// one local program offers one after another.
        var toleratedRefusals: Int {
            switch self {
            case .localProcess: 3
            case .allLocalProcesses: 10
            case .forwardingProcess, .server: 0
            }
        }
    }

    fileprivate var parts: [Part] {
        switch source {
        case .local: [.localProcess(process), .allLocalProcesses]
        case .server(let server): [.forwardingProcess(process), .server(server)]
        case .failedBinding: [.forwardingProcess(process)]
        }
    }

    fileprivate func isSameChain(as other: RequestOrigin) -> Bool {
        isForwarded && other.isForwarded && !Set(parts).isDisjoint(with: other.parts)
    }
}

/// The result of a request's turn, for the limits.
package enum PromptOutcome: Hashable, Sendable {
    /// The hardware accepted the proof.
    case accepted
    /// The user refused, did not answer in time, or the client ended the prompt.
    case refused
    /// There was no decision of the user, for example because the PIN was wrong.
    case undecided
}

/// The order in which requests prompt, one at a time. A state machine over given times.
///
/// Local programs come first: a local request ends the prompt of a forwarded one. A forwarded chain
/// has one request that waits, and none while it is quiet (``QuietTimes``).
package struct PromptTurns: Sendable {
    package typealias ID = UInt64

    package enum Answer: Hashable, Sendable {
        /// Prompt now.
        case begin
        /// Wait. If the running request is to end, the caller ends it.
        case wait(endsRunning: Bool)
        /// No prompt. The text is the reason, as a clause.
        case refused(String)
    }

    /// The end of a turn.
    package struct Handover: Hashable, Sendable {
        /// The requests that are refused, because their origin has become quiet.
        package var refused: [ID] = []
        /// The request that prompts now.
        package var next: ID?
        /// Whether the next prompt must wait for ``QuietTimes/pause``: the last one was closed for it,
        /// and the user may be answering that; or one of both is forwarded, and the finger that
        /// answered the last one may still be on the reader.
        package var needsPause = false
    }

    private struct Request {
        let id: ID
        let origin: RequestOrigin
    }

    private var running: Request?
    /// Whether the running request must end for a local request, or because all requests end.
    package private(set) var isRunningEnded = false
    private var waiting: [Request] = []
    private var quiet = QuietTimes<RequestOrigin.Part>()

    package init() {}

    package mutating func request(_ id: ID, from origin: RequestOrigin, at now: Duration) -> Answer
    {
        if let left = remainingQuiet(origin, at: now) {
            let seconds = Int((left / .seconds(1)).rounded(.up))
            return .refused(
                "the user refused the last prompt, so this origin gets none for \(seconds) seconds")
        }
        let request = Request(id: id, origin: origin)
        guard let running else {
            self.running = request
            return .begin
        }
        guard !waiting.contains(where: { $0.origin.isSameChain(as: origin) }) else {
            return .refused("another request of the same forwarded connection waits for its prompt")
        }
        waiting.append(request)
        let ends = !origin.isForwarded && running.origin.isForwarded
        isRunningEnded = isRunningEnded || ends
        return .wait(endsRunning: ends)
    }

    /// Removes a request that waits.
    ///
    /// - Returns: Whether it waited.
    package mutating func withdraw(_ id: ID) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return false }
        waiting.remove(at: index)
        return true
    }

    /// Removes all requests that wait. The caller ends the running one.
    package mutating func withdrawAll() -> [ID] {
        isRunningEnded = running != nil
        defer { waiting = [] }
        return waiting.map(\.id)
    }

    /// Ends the turn of the running request.
    package mutating func finish(_ outcome: PromptOutcome, at now: Duration) -> Handover {
        guard let last = running else { return Handover() }
        for part in last.origin.parts {
            switch outcome {
            case .accepted: quiet.accept(part)
            case .refused where !isRunningEnded:
                quiet.refuse(part, tolerating: part.toleratedRefusals, at: now)
            case .refused, .undecided: break
            }
        }
        var handover = Handover(needsPause: isRunningEnded && outcome != .accepted)
        (running, isRunningEnded) = (nil, false)
        handover.refused = waiting.filter { remainingQuiet($0.origin, at: now) != nil }.map(\.id)
        waiting.removeAll { handover.refused.contains($0.id) }
        // A program with many requests does not delay the others by all of them.
        let local = waiting.filter { !$0.origin.isForwarded }
        running =
            local.first { $0.origin.process != last.origin.process } ?? local.first
            ?? waiting.first
        if let running {
            waiting.removeAll { $0.id == running.id }
            // The user's own programs trust each other, and many of them need no prompt.
            let isLocal = !running.origin.isForwarded && !last.origin.isForwarded
            if !isLocal, running.origin != last.origin { handover.needsPause = true }
        }
        handover.next = running?.id
        return handover
    }

    private func remainingQuiet(_ origin: RequestOrigin, at now: Duration) -> Duration? {
        origin.parts.compactMap { quiet.remaining(for: $0, at: now) }.max()
    }
}
