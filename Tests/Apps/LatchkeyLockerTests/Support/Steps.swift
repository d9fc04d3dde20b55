import Latchkey
import Synchronization

/// The steps of a program outside its memory: uses of the hardware and requests to the server. Each
/// step can fail, or be the program's last.
final class Steps: Sendable {
    enum Fault: Sendable, CaseIterable {
        /// It fails before anything is done.
        case fails
        /// The step is done, and the program gets an error.
        case failsAfterwards
        /// The program is killed before it.
        case isKilled
        /// The program is killed after it.
        case isKilledAfterwards

        var isKill: Bool { self == .isKilled || self == .isKilledAfterwards }
        var isAfterwards: Bool { self == .failsAfterwards || self == .isKilledAfterwards }
    }

    private struct State {
        var count = 0
        var armed: (index: Int, fault: Fault)?
        /// The step at which the fault was.
        var hit: String?
        var isDead = false
        var halted: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let deaths = AsyncStream.makeStream(of: Void.self)

    /// The step with the fault; nil if there was none yet.
    var hit: String? { state.withLock { $0.hit } }

    /// Adds a fault to the `index`th step from now on; the first is 0.
    func arm(_ fault: Fault, at index: Int) {
        state.withLock { $0.armed = ($0.count + index, fault) }
    }

    /// Runs a program until it ends or is killed.
    ///
    /// - Returns: How it ended; nil when it was killed.
    func run<R: Sendable>(_ body: @escaping @Sendable () async throws -> R) async -> Result<
        R, any Error
    >? {
        let program = Task {
            let result: Result<R, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            deaths.continuation.finish()
            return result
        }
        for await _ in deaths.stream { return nil }
        return await program.value
    }

    /// Releases the resources of a killed program. All its further steps fail.
    func releaseHalted() {
        let halted = state.withLock { state in
            defer { state.halted = [] }
            return state.halted
        }
        for continuation in halted { continuation.resume() }
    }

    func perform<R>(
        _ name: String, failing failure: KeystoreError, _ step: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        let (fault, isDead) = state.withLock { state in
            defer { state.count += 1 }
            guard let armed = state.armed, armed.index == state.count else {
                return (Fault?.none, state.isDead)
            }
            state.hit = name
            state.isDead = armed.fault.isKill
            return (armed.fault, false)
        }
        guard !isDead else { throw failure }
        guard let fault else { return try await step() }
        // A step that this hardware does not support counts as done.
        if fault.isAfterwards { _ = try? await step() }
        if fault.isKill { await halt() }
        throw failure
    }

    private func halt() async {
        await withCheckedContinuation { continuation in
            state.withLock { $0.halted.append(continuation) }
            deaths.continuation.yield()
        }
    }
}
