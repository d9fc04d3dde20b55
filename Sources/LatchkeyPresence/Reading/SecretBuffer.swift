internal import Glibc
internal import Latchkey

/// Room for one line of secret text. It never grows, so no copies are left behind, and it is cleared when it goes.
struct SecretBuffer: ~Copyable {
    /// More than any PIN needs, so that one that is too long is seen as such.
    static let capacity = 2 * PIN.maximumBytes

    private let storage: UnsafeMutableRawBufferPointer
    private(set) var count = 0
    /// Whether more was typed than there is room for.
    private(set) var isOverfull = false

    init() {
        storage = .allocate(byteCount: Self.capacity, alignment: 1)
        storage.initializeMemory(as: UInt8.self, repeating: 0)
    }

    mutating func append(_ byte: UInt8) {
        guard count < storage.count else {
            isOverfull = true
            return
        }
        storage[count] = byte
        count += 1
    }

    /// Takes back the last character: one UTF-8 sequence.
    mutating func removeLastCharacter() {
        while count > 0 {
            count -= 1
            let isContinuation = storage[count] & 0xC0 == 0x80
            storage[count] = 0
            if !isContinuation { return }
        }
    }

    mutating func clear() {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        count = 0
        isOverfull = false
    }

    /// The line as a PIN.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a line that can't be one.
    func pin() throws(KeystoreError) -> PIN {
        guard !isOverfull else {
            throw .invalidInput("read a PIN", "it has more than \(PIN.maximumBytes) bytes")
        }
        return try PIN(utf8: UnsafeRawBufferPointer(rebasing: storage[..<count]))
    }

    deinit {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        storage.deallocate()
    }
}
