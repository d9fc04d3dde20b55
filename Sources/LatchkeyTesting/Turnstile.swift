/// Lets only so many pass at once; the others wait in line.
///
/// swift-testing starts all tests at once. Hundreds of simulators on two cores would keep each other from answering
/// in time.
actor Turnstile {
    private var free: Int
    private var line: [CheckedContinuation<Void, Never>] = []

    init(width: Int) {
        free = width
    }

    func pass<R: Sendable>(_ body: @Sendable () async throws -> R) async throws -> R {
        await enter()
        defer { leave() }
        return try await body()
    }

    private func enter() async {
        guard free == 0 else {
            free -= 1
            return
        }
        await withCheckedContinuation { line.append($0) }
    }

    private func leave() {
        guard line.isEmpty else { return line.removeFirst().resume() }
        free += 1
    }
}
