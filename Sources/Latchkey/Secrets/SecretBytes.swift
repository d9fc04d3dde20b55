internal import Glibc

/// Bytes that are locked into memory, kept out of core dumps, cleared when the last copy goes, and never printed.
///
/// Copies share one buffer. There is no property that gives the bytes away: borrow them with
/// ``withUnsafeBytes(_:)``, and do not let the pointer escape.
public struct SecretBytes: Sendable {
    private let storage: Storage

    /// Copies `bytes`. The source stays what it was: clear it where you can.
    public init(_ bytes: some Sequence<UInt8>) {
        let bytes = ContiguousArray(bytes)
        storage = Storage(count: bytes.count)
        for (index, byte) in bytes.enumerated() { storage.buffer[index] = byte }
    }

    /// Lets `body` write `count` bytes straight into locked memory.
    public init<E: Error>(
        count: Int, initializingWith body: (UnsafeMutableRawBufferPointer) throws(E) -> Void
    ) throws(E) {
        storage = Storage(count: count)
        try body(storage.buffer)
    }

    /// `count` bytes from the system's random number generator.
    public static func random(count: Int) -> SecretBytes {
        var generator = SystemRandomNumberGenerator()
        return SecretBytes(count: count) { buffer in
            for index in buffer.indices { buffer[index] = UInt8.random(in: .min ... .max, using: &generator) }
        }
    }

    /// The number of bytes.
    public var count: Int { storage.buffer.count }

    /// Whether there are no bytes.
    public var isEmpty: Bool { storage.buffer.isEmpty }

    /// Lends the bytes to `body`. The pointer is valid during the call only.
    public func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try body(UnsafeRawBufferPointer(storage.buffer))
    }

    /// Whether both have the same bytes; the time taken depends on the lengths only.
    public static func == (left: SecretBytes, right: SecretBytes) -> Bool {
        guard left.count == right.count else { return false }
        return zip(left.storage.buffer, right.storage.buffer).reduce(into: UInt8(0)) { $0 |= $1.0 ^ $1.1 } == 0
    }

    /// Owns the buffer: whole pages, so that locking and dump exclusion touch nobody else's memory.
    ///
    /// Safe to share: it is written only while it is being made, before anybody else can see it.
    private final class Storage: @unchecked Sendable {
        let buffer: UnsafeMutableRawBufferPointer
        private let pages: UnsafeMutableRawBufferPointer

        init(count: Int) {
            let page = Int(getpagesize())
            pages = .allocate(byteCount: max(1, (count + page - 1) / page) * page, alignment: page)
            pages.initializeMemory(as: UInt8.self, repeating: 0)
            buffer = UnsafeMutableRawBufferPointer(rebasing: pages[..<count])
            // Without the right to lock memory (RLIMIT_MEMLOCK) the secret could be swapped out; that is no reason
            // to refuse to work, and the other protections stand.
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

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "‹secret, \(count) bytes›" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
