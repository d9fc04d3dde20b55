import Testing
import VirtualSmartCard

/// An applet without a reader, with the host's commands.
struct TestCard {
    var applet: PIVApplet

    /// Shared by all tests, because its creation is slow.
    static let authority = Result { try AttestationAuthority() }

    init(_ profile: CardProfile = CardProfile(), environment: TestEnvironment = TestEnvironment())
        throws
    {
        applet = PIVApplet(
            profile: profile, authority: try Self.authority.get(),
            environment: environment.cardEnvironment)
        try #require(send("00a4040005a000000308").status == .success)
    }

    /// A response and its status word, separately.
    struct Response {
        let data: [UInt8]
        let status: StatusWord
    }

    /// Sends bytes without changes.
    mutating func send(_ bytes: [UInt8]) throws -> Response { try applet.send(bytes) }

    /// Sends bytes in hexadecimal digits.
    mutating func send(_ digits: String) throws -> Response { try send(bytes(digits)) }

    /// Sends a command with data in the extended form.
    mutating func send(_ instruction: UInt8, _ p1: UInt8, _ p2: UInt8, _ data: [UInt8]) throws
        -> Response
    {
        let header = [0, instruction, p1, p2, 0]
        guard !data.isEmpty else { return try send(header + [0, 0]) }
        return try send(
            header + [UInt8(data.count >> 8), UInt8(data.count & 0xFF)] + data + [0, 0])
    }

    /// The command requires a touch.
    struct TouchRequired: Error {}

    static func split(_ response: [UInt8]) throws -> Response {
        try #require(response.count >= 2)
        let status =
            UInt16(response[response.count - 2]) << 8 | UInt16(response[response.count - 1])
        return Response(data: response.dropLast(2), status: StatusWord(rawValue: status))
    }

    // MARK: - Common steps

    mutating func verifyPIN(_ pin: String = "123456") throws -> StatusWord {
        try send(0x20, 0x00, 0x80, padded(pin)).status
    }

    /// Authenticates one-way with the factory's management key.
    mutating func authenticate(_ algorithm: ManagementKeyAlgorithm = .tripleDES) throws {
        let asked = try send(0x87, algorithm.rawValue, 0x9B, bytes("7c028100"))
        try #require(asked.status == .success)
        let proved = try send(
            0x87, algorithm.rawValue, 0x9B,
            field(0x7C, field(0x82, TestEnvironment.encryptedChallenge(algorithm))))
        try #require(proved.status == .success)
    }

    /// - Parameter policies: `aa01XX` for the PIN and `ab01XX` for the touch.
    /// - Returns: The public point.
    @discardableResult
    mutating func generate(_ slot: UInt8, _ algorithm: UInt8 = 0x11, policies: String = "") throws
        -> [UInt8]
    {
        let made = try send(0x47, 0, slot, field(0xAC, [0x80, 1, algorithm] + bytes(policies)))
        try #require(made.status == .success)
        return Array(made.data.dropFirst(5))
    }

    mutating func sign(_ slot: UInt8, _ digest: [UInt8], _ algorithm: UInt8 = 0x11) throws
        -> Response
    {
        try send(0x87, algorithm, slot, field(0x7C, [0x82, 0] + field(0x81, digest)))
    }
}

extension CardApplet {
    /// Sends bytes without changes.
    mutating func send(_ bytes: [UInt8]) throws -> TestCard.Response {
        switch respond(to: bytes) {
        case .response(let response): return try TestCard.split(response)
        case .touchRequired: throw TestCard.TouchRequired()
        }
    }

    /// Sends bytes in hexadecimal digits.
    mutating func send(_ digits: String) throws -> TestCard.Response { try send(bytes(digits)) }
}

/// Reads hexadecimal digits.
func bytes(_ digits: String) -> [UInt8] {
    let digits = Array(digits.utf8.filter { $0 != UInt8(ascii: " ") })
    return stride(from: 0, to: digits.count - 1, by: 2).map {
        UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16) ?? 0
    }
}

/// A tag of one byte, a length and a value.
func field(_ tag: UInt8, _ value: [UInt8]) -> [UInt8] {
    let length: [UInt8] =
        value.count < 0x80
        ? [UInt8(value.count)] : [0x82, UInt8(value.count >> 8), UInt8(value.count & 0xFF)]
    return [tag] + length + value
}

/// A PIN padded to 8 bytes.
func padded(_ pin: String) -> [UInt8] {
    Array(pin.utf8) + [UInt8](repeating: 0xFF, count: 8 - pin.utf8.count)
}
