internal import Dispatch

/// Runs an actor on a queue of its own, since a TPM's calls block for up to minutes and the cooperative pool must not.
final class TPMExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "org.latchkey.tpm")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
