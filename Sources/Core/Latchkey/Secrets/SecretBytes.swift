internal import Glibc

/// Bytes in locked memory that are excluded from core dumps, cleared with the last copy, and never
/// printed.
///
/// Copies share one buffer. Access the bytes with ``withUnsafeBytes(_:)``, and do not store the
/// pointer.
public struct SecretBytes: Sendable {
    private let storage: Storage

    /// Copies `bytes`. It does not clear the source: do that if you can.
    public init(_ bytes: some Sequence<UInt8>) {
        let bytes = ContiguousArray(bytes)
        storage = Storage(count: bytes.count)
        for (index, byte) in bytes.enumerated() { storage.buffer[index] = byte }
    }

    /// Creates a secret whose `count` bytes `body` writes directly into locked memory.
    public init<E: Error>(
        count: Int, initializingWith body: (UnsafeMutableRawBufferPointer) throws(E) -> Void
    ) throws(E) {
        storage = Storage(count: count)
        try body(storage.buffer)
    }

    /// Creates a secret of `count` bytes from the system's random number generator.
    public static func random(count: Int) -> SecretBytes {
        var generator = SystemRandomNumberGenerator()
        return SecretBytes(count: count) { buffer in
            for index in buffer.indices {
                buffer[index] = UInt8.random(in: .min ... .max, using: &generator)
            }
        }
    }

    /// The number of bytes.
    public var count: Int { storage.buffer.count }

    /// Whether there are no bytes.
    package var isEmpty: Bool { storage.buffer.isEmpty }

    /// Passes the bytes to `body`. The pointer is valid during the call only.
    public func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R)
        throws(E) -> R
    {
        try body(UnsafeRawBufferPointer(storage.buffer))
    }

    /// Whether both have the same bytes. The time depends on the lengths only.
    public static func == (left: SecretBytes, right: SecretBytes) -> Bool {
        constantTimeEqual(left.storage.buffer, right.storage.buffer)
    }

    /// Owns the buffer: whole pages, so that locking and dump exclusion affect no other memory.
    ///
    /// It is safe to share because it is written only during initialization.
    private final class Storage: @unchecked Sendable {
        let buffer: UnsafeMutableRawBufferPointer
        private let pages: UnsafeMutableRawBufferPointer

        init(count: Int) {
            let page = Int(getpagesize())
            pages = .allocate(byteCount: max(1, (count + page - 1) / page) * page, alignment: page)
            pages.initializeMemory(as: UInt8.self, repeating: 0)
            buffer = UnsafeMutableRawBufferPointer(rebasing: pages[..<count])
            // Without the right to lock memory (RLIMIT_MEMLOCK) the secret can be swapped out. The
            // other protections still apply.
            mlock(pages.baseAddress, pages.count)
            madvise(pages.baseAddress, pages.count, MADV_DONTDUMP)
        }

        deinit {
            if let base = pages.baseAddress { explicit_bzero(base, pages.count) }
            madvise(pages.baseAddress, pages.count, MADV_DODUMP)
            munlock(pages.baseAddress, pages.count)
            pages.deallocate()
        }
    }
}

extension SecretBytes: Equatable {}

extension SecretBytes: RedactedValue {
    public var description: String { "‹secret, \(count) bytes›" }
}

/// A value whose printed form and `Mirror` show only its description.
package protocol RedactedValue: CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{}

extension RedactedValue {
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension SecretBytes {
    /// The bytes as text, for a request. This copy is not cleared.
    package var text: String {
        withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}

/// Whether two byte strings are equal. The time depends on their lengths only, which are public.
package func constantTimeEqual(_ left: some Collection<UInt8>, _ right: some Collection<UInt8>)
    -> Bool
{
    guard left.count == right.count else { return false }
    return zip(left, right).reduce(into: UInt8(0)) { $0 |= $1.0 ^ $1.1 } == 0
}
