internal import Dispatch
internal import Synchronization

/// The work of a ``TokenThread`` and what becomes of it; shared with the thread itself, which may outlive its owner.
final class JobLine: Sendable {
    private struct State {
        /// In the order in which they came; taken from the end.
        var jobs: [any TokenJob] = []
        var current: (any TokenJob)?
        /// Why no more work is taken.
        var closed: CryptokiError?
    }

    let watch = CallWatch()
    private let state = Mutex(State())
    private let arrivals = DispatchSemaphore(value: 0)
    private let findRescue: TokenThread.Expiry

    /// - Parameter onExpiry: as ``TokenThread/init(onExpiry:)`` has it.
    init(onExpiry: @escaping TokenThread.Expiry) {
        findRescue = onExpiry
        watch.onExpiry { [weak self] function in self?.expire(function) }
    }

    func append(_ job: any TokenJob) {
        let refusal: CryptokiError? = state.withLock { state in
            if state.closed == nil { state.jobs.insert(job, at: 0) }
            return state.closed
        }
        if let refusal {
            job.fail(refusal)
        } else {
            arrivals.signal()
        }
    }

    /// Takes no more work. What is in line already is done when the thread can, or failed when it can't.
    ///
    /// - Parameter isStuck: whether the thread will never come to what is in line.
    func close(_ reason: CryptokiError, isStuck: Bool = false) {
        let stranded: [any TokenJob] = state.withLock { state in
            state.closed = state.closed ?? reason
            guard isStuck else { return [] }
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in stranded { job.fail(reason) }
        arrivals.signal()
    }

    /// The thread's life: does what is in line until the line is closed and empty.
    func serve() {
        while true {
            arrivals.wait()
            let next: (any TokenJob)? = state.withLock { state in
                state.current = state.jobs.popLast()
                return state.current
            }
            if let next {
                next.run()
            } else if state.withLock({ $0.closed != nil }) {
                return
            }
        }
    }

    var isWorkAbandoned: Bool { state.withLock { $0.current }?.isAbandoned ?? false }

    /// Called while the watch keeps the call from ending, so that what is current is what made the call.
    private func expire(_ function: String) {
        let current = state.withLock { $0.current }
        let rescue = findRescue(function)
        if rescue == nil { close(.wedged(by: function), isStuck: true) }
        // Before the rescue, whose effect on the call must not be taken for the call's own result.
        current?.fail(.timedOut(in: function))
        rescue?()
    }
}

extension CryptokiError {
    static func wedged(by function: String) -> CryptokiError {
        CryptokiError(
            .wedged, function: function, reason: "the module hangs: an earlier call in this process never came back")
    }

    static func timedOut(in function: String) -> CryptokiError {
        CryptokiError(.timedOut, function: function, reason: "the module did not answer in time")
    }
}
