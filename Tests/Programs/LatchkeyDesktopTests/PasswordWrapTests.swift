import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyDesktop

@Suite struct PasswordWrapTests {
    private static let password = SecretBytes("correct horse".utf8)
    private static let binding = PasswordWrap.Binding(user: 1000, generation: 7, kind: .gnome)

    /// Opens a copy, or makes one with a given nonce, with Python's `cryptography`.
    private static let oracle = """
        import sys
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
        do, password, salt, user, generation, kind, nonce, data = sys.argv[1:]
        key = Scrypt(bytes.fromhex(salt), 32, 2**16, 8, 1).derive(bytes.fromhex(password))
        bound = (b"latchkey login wrap 1" + int(user).to_bytes(4, "big") + int(generation).to_bytes(8, "big")
                 + int(kind).to_bytes(1, "big"))
        work = AESGCM(key).encrypt if do == "seal" else AESGCM(key).decrypt
        print(work(bytes.fromhex(nonce), bytes.fromhex(data), bound).hex())
        """

    private static func python(_ action: String, salt: Data, nonce: Data, data: Data) async throws
        -> String
    {
        let text = try await SystemProgram("python3").require([
            "-c", oracle, action, password.withUnsafeBytes { Data($0) }.hex, salt.hex, "1000", "7",
            "1", nonce.hex, data.hex,
        ])
        return text.trimmingPrefix(while: \.isWhitespace).split(separator: "\n").first
            .map(String.init) ?? ""
    }

    @Test(.requires(program: "python3"))
    func `another implementation of scrypt and AES-GCM opens a copy and makes the same`()
        async throws
    {
        let secret = SecretBytes(0..<32)
        let salt = Data((0..<16).map { UInt8($0) * 3 })
        let nonce = Data((0..<12).map { UInt8(200 + $0) })
        let wrap = try PasswordWrap(
            secret, password: Self.password, binding: Self.binding,
            logRounds: PasswordWrap.standardLogRounds, salt: salt, nonce: nonce)
        #expect(wrap.box.prefix(12) == nonce)
        let plain = secret.withUnsafeBytes { Data($0) }
        let rest = wrap.box.dropFirst(12)
        #expect(try await Self.python("seal", salt: salt, nonce: nonce, data: plain) == rest.hex)

        let own = try PasswordWrap(secret, password: Self.password, binding: Self.binding)
        #expect(own.logRounds == 16)
        #expect(
            try await Self.python(
                "open", salt: own.salt, nonce: own.box.prefix(12), data: own.box.dropFirst(12))
                == plain.hex)
    }

    @Test func `a copy opens with its password and binding only`() throws {
        let secret = SecretBytes.random(count: 32)
        let wrap = try PasswordWrap(quick: secret, password: Self.password, binding: Self.binding)
        #expect(try wrap.open(password: Self.password, binding: Self.binding) == secret)
        #expect(
            try wrap.open(password: SecretBytes("Correct horse".utf8), binding: Self.binding) == nil
        )
        for binding in [
            PasswordWrap.Binding(user: 1001, generation: 7, kind: .gnome),
            PasswordWrap.Binding(user: 1000, generation: 8, kind: .gnome),
            PasswordWrap.Binding(user: 1000, generation: 7, kind: .kwallet),
        ] {
            #expect(try wrap.open(password: Self.password, binding: binding) == nil)
        }
    }

    @Test func `a changed copy does not open`() throws {
        let wrap = try PasswordWrap(
            quick: .random(count: 32), password: Self.password, binding: Self.binding)
        var (salt, box) = (wrap.salt, wrap.box)
        salt[3] ^= 1
        box[20] ^= 1
        for (salt, box) in [(salt, wrap.box), (wrap.salt, box)] {
            let changed = try #require(
                PasswordWrap(logRounds: 4, salt: salt, box: box, kind: .gnome))
            #expect(try changed.open(password: Self.password, binding: Self.binding) == nil)
        }
        for (rounds, salt, kind) in [
            (4, wrap.salt, KeyringKind.kwallet), (4, wrap.salt.dropLast(), .gnome),
            (17, wrap.salt, .gnome), (3, wrap.salt, .gnome), (-1, wrap.salt, .gnome),
        ] {
            #expect(
                PasswordWrap(logRounds: rounds, salt: salt, box: wrap.box, kind: kind) == nil)
        }
    }

    @Test func `two copies of one secret have nothing in common`() throws {
        let secret = SecretBytes.random(count: 32)
        let copies = try (0..<2).map { _ in
            try PasswordWrap(quick: secret, password: Self.password, binding: Self.binding)
        }
        #expect(copies[0].salt != copies[1].salt)
        #expect(copies[0].box.prefix(12) != copies[1].box.prefix(12))
    }

    @Test func `an empty password is refused`() {
        #expect(throws: CommonError.of(.invalidInput)) {
            try PasswordWrap(.random(count: 32), password: SecretBytes([]), binding: Self.binding)
        }
    }
}

extension Sequence<UInt8> {
    /// Two hexadecimal digits for each byte.
    var hex: String {
        map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
