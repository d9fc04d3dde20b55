import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// The test's software token behind a module that misbehaves on request (`Tests/C/HostileModule`),
/// in a separate file.
struct HostileToken {
    let modulePath: String
    let directory: TemporaryDirectory
    private let base: String
    private let serial: String

    init() throws {
        directory = try TemporaryDirectory()
        modulePath = directory.path(of: "hostile.so")
        let token = try SoftwareToken.current
        // Another file is another module with separate state; it finds the same token.
        base = directory.path(of: "base.so")
        serial = token.serial
        try FileManager.default.copyItem(atPath: token.modulePath, toPath: base)
        try FileManager.default.copyItem(
            atPath: BuiltProduct.library("HostileModule"), toPath: modulePath)
        try tell()
    }

    /// Has the module behave so from its next call on, and otherwise as the token does.
    func tell(_ rules: String...) throws {
        let script = ["base \(base)"] + rules
        try Data(script.map { "\($0)\n" }.joined().utf8).write(
            to: URL(filePath: "\(modulePath).script"), options: .atomic)
    }

    /// The functions that were called, in order.
    func calls() throws -> [String] {
        String(decoding: try Data(contentsOf: URL(filePath: "\(modulePath).log")), as: UTF8.self)
            .split(separator: "\n").map(String.init)
    }

    func count(of function: String) throws -> Int { try calls().count { $0 == function } }

    var uri: String { "pkcs11:serial=\(serial)?module-path=\(modulePath)" }

    func token(_ options: TokenOptions = Self.quick) async throws -> Token {
        try await Token.find(TokenURI(uri), options: options)
    }

    /// Deadlines for calls that hang, long enough for the other calls on a busy machine.
    static let quick = TokenOptions(
        isolation: .never,
        deadlines: TokenOptions.Deadlines(
            data: .seconds(10), person: .seconds(12), load: .seconds(20)),
        settlingTime: .milliseconds(20))
    /// Deadlines that no call exceeds.
    static let patient = TokenOptions(
        isolation: .never, deadlines: .hangLimit, settlingTime: .milliseconds(20))

    static let isolated: TokenOptions = {
        var options = quick
        options.isolation = .always
        return options
    }()
}

extension TokenOptions.Deadlines {
    /// The time limit of every wait of the tests, five minutes, for each kind of call.
    static let hangLimit = Self(
        data: LatchkeySimulators.hangLimit, person: LatchkeySimulators.hangLimit,
        load: LatchkeySimulators.hangLimit)
}
