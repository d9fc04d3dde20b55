internal import Latchkey

extension PIN {
    /// Lends the PIN as C has it, ended by a zero byte, in memory that is locked and cleared afterwards.
    func withTerminatedBytes<R, E: Error>(
        prefix: String = "", _ body: (UnsafePointer<CChar>?) throws(E) -> R
    ) throws(E) -> R {
        try withUnsafeBytes { (bytes) throws(E) in
            try SecretBytes(count: prefix.utf8.count + bytes.count + 1) { buffer in
                buffer.copyBytes(from: prefix.utf8)
                UnsafeMutableRawBufferPointer(rebasing: buffer.dropFirst(prefix.utf8.count)).copyMemory(from: bytes)
            }.withUnsafeBytes { (terminated) throws(E) in
                try body(terminated.assumingMemoryBound(to: CChar.self).baseAddress)
            }
        }
    }
}

extension LoginProof {
    /// Lends the proof as libp11 takes it: ended by a zero byte, or nothing at all for a token that asks by itself.
    func withTerminatedBytes<R, E: Error>(_ body: (UnsafePointer<CChar>?) throws(E) -> R) throws(E) -> R {
        switch self {
        case .pin(let pin): try pin.withTerminatedBytes(body)
        case .secret(let secret):
            try secret.withUnsafeBytes { (bytes) throws(E) in
                try SecretBytes(count: bytes.count + 1) { $0.copyMemory(from: bytes) }.withUnsafeBytes {
                    (terminated) throws(E) in
                    try body(terminated.assumingMemoryBound(to: CChar.self).baseAddress)
                }
            }
        case .protectedPath: try body(nil)
        }
    }
}
