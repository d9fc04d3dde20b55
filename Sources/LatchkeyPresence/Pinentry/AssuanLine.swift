internal import Glibc
internal import Latchkey

/// One line from an Assuan server, as it comes in: at most 1000 bytes with its line feed (Assuan manual, section
/// "Server responses"). It may hold a PIN, so it is cleared.
struct AssuanLine: ~Copyable {
    static let maximumBytes = 1000

    private let storage: UnsafeMutableRawBufferPointer
    private var count = 0

    init() {
        storage = .allocate(byteCount: Self.maximumBytes, alignment: 1)
        storage.initializeMemory(as: UInt8.self, repeating: 0)
    }

    /// - Returns: Whether the line is complete.
    /// - Throws: ``KeystoreError`` with code `failed` for a line that is too long.
    mutating func append(_ byte: UInt8) throws(KeystoreError) -> Bool {
        if byte == UInt8(ascii: "\n") { return true }
        guard count < storage.count else { throw PinentryDialogue.broken("it sent a line that is too long") }
        storage[count] = byte
        count += 1
        return false
    }

    func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        body(UnsafeRawBufferPointer(rebasing: storage[..<count]))
    }

    mutating func clear() {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        count = 0
    }

    deinit {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        storage.deallocate()
    }

    /// A command's argument: `%`, line breaks and other control characters as `%XX`, cut at a character so that the
    /// line fits.
    static func escaped(_ text: String) -> String {
        var result = ""
        for character in text {
            var piece = ""
            for byte in String(character).utf8 where byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") {
                piece += "%" + (byte < 0x10 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
            if piece.isEmpty { piece = String(character) }
            guard result.utf8.count + piece.utf8.count <= maximumBytes - 50 else { break }
            result += piece
        }
        return result
    }
}
