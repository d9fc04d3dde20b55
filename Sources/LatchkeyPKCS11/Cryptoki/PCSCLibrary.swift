internal import Glibc

/// The functions of pcsc-lite's client library (winscard.h) that reset a card. `LONG` and `DWORD` have the size of `Int`
/// on Linux.
struct PCSCLibrary: Sendable {
    private typealias Establish =
        @convention(c) (UInt, UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutablePointer<Int>)
        -> Int
    private typealias Release = @convention(c) (Int) -> Int
    private typealias ListReaders =
        @convention(c) (
            Int, UnsafePointer<CChar>?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<UInt>
        ) -> Int
    private typealias Connect =
        @convention(c) (
            Int, UnsafePointer<CChar>, UInt, UInt, UnsafeMutablePointer<Int>, UnsafeMutablePointer<UInt>
        ) -> Int
    private typealias Disconnect = @convention(c) (Int, UInt) -> Int

    static let success: UInt32 = 0
    /// `SCARD_E_SHARING_VIOLATION`: another program uses the card exclusively.
    private static let sharingViolation: UInt32 = 0x8010_000b
    /// The card or its reader is gone, has no power, or pcscd does not run: it cannot be unlocked.
    private static let withoutCard: Set<UInt32> = [
        0x8010_0009, 0x8010_000c, 0x8010_0017, 0x8010_001d, 0x8010_001e, 0x8010_002e, 0x8010_0066, 0x8010_0067,
        0x8010_0069,
    ]
    /// `SCARD_SCOPE_SYSTEM`, `SCARD_SHARE_SHARED`, T=0 or T=1, and `SCARD_RESET_CARD`.
    private static let (systemScope, shared, anyProtocol, resetCard): (UInt, UInt, UInt, UInt) = (2, 2, 3, 1)
    /// How many bytes of a reader's name a slot's description holds (`CK_SLOT_INFO`).
    private static let descriptionBytes = 64
    /// Names of 16 readers with 128 bytes each (`PCSCLITE_MAX_READERS_CONTEXTS`).
    private static let namesBytes = 16 * 129 + 1

    private let establish: Establish
    private let release: Release
    private let listReaders: ListReaders
    private let connect: Connect
    private let disconnect: Disconnect

    /// - Returns: nil on a machine without pcsc-lite, where no module reaches a card through it.
    init?() {
        guard let handle = dlopen("libpcsclite.so.1", RTLD_NOW | RTLD_LOCAL),
            let establish = dlsym(handle, "SCardEstablishContext"), let release = dlsym(handle, "SCardReleaseContext"),
            let list = dlsym(handle, "SCardListReaders"), let connect = dlsym(handle, "SCardConnect"),
            let disconnect = dlsym(handle, "SCardDisconnect")
        else { return nil }
        self.establish = unsafeBitCast(establish, to: Establish.self)
        self.release = unsafeBitCast(release, to: Release.self)
        listReaders = unsafeBitCast(list, to: ListReaders.self)
        self.connect = unsafeBitCast(connect, to: Connect.self)
        self.disconnect = unsafeBitCast(disconnect, to: Disconnect.self)
    }

    /// Connects to the card in a reader and disconnects with a reset. Tries again until the deadline while another
    /// program uses the card exclusively.
    ///
    /// - Returns: A code of PC/SC; ``success`` also where there is no such reader, or no card in it.
    func reset(reader description: String, until deadline: ContinuousClock.Instant) -> UInt32 {
        var context = 0
        let code = Self.code(establish(Self.systemScope, nil, nil, &context))
        guard code == Self.success else { return Self.withoutCard.contains(code) ? Self.success : code }
        defer { _ = release(context) }
        guard let name = readers(context).first(where: { Self.describes($0, description) }) else { return Self.success }
        while true {
            let code = reset(name, context)
            guard code == Self.sharingViolation, ContinuousClock.now < deadline else {
                return Self.withoutCard.contains(code) ? Self.success : code
            }
            usleep(20_000)
        }
    }

    private func reset(_ name: String, _ context: Int) -> UInt32 {
        var (card, protocolInUse) = (0, UInt(0))
        let code = Self.code(connect(context, name, Self.shared, Self.anyProtocol, &card, &protocolInUse))
        guard code == Self.success else { return code }
        return Self.code(disconnect(card, Self.resetCard))
    }

    private func readers(_ context: Int) -> [String] {
        var names = [CChar](repeating: 0, count: Self.namesBytes)
        var count = UInt(names.count)
        guard Self.code(listReaders(context, nil, &names, &count)) == Self.success, count <= UInt(names.count) else {
            return []
        }
        return names.prefix(Int(count)).split(separator: 0).map { name in
            String(decoding: name.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    private static func describes(_ reader: String, _ description: String) -> Bool {
        reader == description
            || description.utf8.count == descriptionBytes && reader.utf8.starts(with: description.utf8)
    }

    private static func code(_ value: Int) -> UInt32 { UInt32(truncatingIfNeeded: value) }
}
