import Latchkey
import Synchronization

/// What a program does outside of its own memory, one after the other: uses of hardware, and requests to the server. Any
/// one of them may go wrong, or be the program's last.
final class Steps: Sendable {
    enum Fault: Sendable, CaseIterable {
        /// It fails before anything is done.
        case fails
        /// It is done, and the program hears that it failed.
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

    /// Which step the fault met; nil as long as it met none.
    var hit: String? { state.withLock { $0.hit } }

    /// Has the `index`th step from now on go wrong; the first is 0.
    func arm(_ fault: Fault, at index: Int) {
        state.withLock { $0.armed = ($0.count + index, fault) }
    }

    /// Runs a program until it ends or is killed.
    ///
    /// - Returns: How it ended; nil when it was killed.
    func run<R: Sendable>(_ body: @escaping @Sendable () async throws -> R) async -> Result<R, any Error>? {
        let program = Task {
            let result: Result<R, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            deaths.continuation.finish()
            return result
        }
        for await _ in deaths.stream { return nil }
        return await program.value
    }

    /// Gives up what a killed program holds. All it can still find out is that nothing works.
    func storeRevocation() {
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
            guard let armed = state.armed, armed.index == state.count else { return (Fault?.none, state.isDead) }
            state.hit = name
            state.isDead = armed.fault.isKill
            return (armed.fault, false)
        }
        guard !isDead else { throw failure }
        guard let fault else { return try await step() }
        // A step that can't be done on this hardware is over as well.
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
