internal import CLibP11
internal import Latchkey
internal import Synchronization

/// Threads for libp11's calls, each with a deadline.
///
/// libp11 0.4.12 waits forever after a failed `C_OpenSession`, and a module may hang. Its calls are therefore made on a
/// separate thread, which is abandoned if it does not return in time; libp11 is then no longer called for that module.
enum LibP11Thread {
    /// Does `work` on a separate thread and waits for it on this thread, which must be allowed to block.
    ///
    /// - Parameters:
    ///   - name: The operation, for the error.
    ///   - module: A module in this process. It is not finalized before `work` has returned.
    /// - Throws: Errors of `work`; `timedOut`, and afterwards always `wedged`.
    static func run<R: Sendable>(
        _ name: String, in module: Module, within limit: Duration,
        _ work: @escaping @Sendable () -> Result<R, CryptokiError>
    ) throws(CryptokiError) -> R {
        guard !hanging.withLock({ $0.contains(module.path) }) else { throw .wedged(by: name) }
        _ = try module.beginCall(patience: limit)
        let outcome = BlockingThread.run(within: limit) {
            defer { module.endCall() }
            return work()
        }
        guard let outcome else {
            hanging.withLock { _ = $0.insert(module.path) }
            throw .timedOut(in: name)
        }
        return try outcome.get()
    }

    private static let hanging = Mutex<Set<String>>([])
}

/// Reads the cause of a libp11 error from OpenSSL's error queue, and empties the queue.
///
/// The first entry is often misleading ("expecting an rsa key" for a removed card). The module's code is the reason of the last
/// entry whose library is the one that libp11 registered for `CKR_…` codes.
enum LibP11Error {
    /// OpenSSL's number for the library of `CKR_…` codes. libp11 allocates it at its first use without a lock: two threads
    /// could get two numbers, and one of them could not read its errors. It is therefore allocated here, once, before any other
    /// use of libp11.
    private static let library: Int32 = {
        ERR_load_PKCS11_strings()
        return ERR_get_CKR_code()
    }()

    /// - Parameter function: The libp11 function that failed.
    static func take(_ function: String) -> CryptokiError {
        var answer: UInt?
        var last: UInt = 0
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            last = code
            if ERR_GET_LIB(code) == library { answer = UInt(truncatingIfNeeded: ERR_GET_REASON(code)) }
        }
        // libp11 reports its own code as the module's if it did not get a PIN.
        if let answer, answer != UInt(P11_R_UI_FAILED) {
            return CryptokiError(ReturnValue(rawValue: answer), from: function)
        }
        if answer != nil {
            return CryptokiError(.loginNeeded, function: function, reason: "the proof is valid for one signature only")
        }
        let words = ERR_reason_error_string(last).map { String(cString: $0) } ?? "it gives no reason"
        return CryptokiError(.unsupported, function: function, reason: "libp11 failed: \(words)")
    }

    /// Empties the queue, so that old errors are not reported for the next call. Call it before every use of libp11.
    static func clear() {
        _ = library
        ERR_clear_error()
    }
}
