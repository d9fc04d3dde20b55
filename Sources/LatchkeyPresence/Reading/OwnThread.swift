internal import Dispatch

/// Runs work that blocks for as long as a person thinks, on a thread outside of the cooperative pool.
///
/// - Parameter body: Gets a pipe to watch. A byte in it means that the task was cancelled: the work is to end soon.
func onOwnThread<T: Sendable>(_ body: @escaping @Sendable (WakeUp) -> T) async -> T {
    let wakeUp = WakeUp()
    return await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "org.latchkey.presence").async { continuation.resume(returning: body(wakeUp)) }
        }
    } onCancel: {
        wakeUp.wake(WakeUp.cancelled)
    }
}
