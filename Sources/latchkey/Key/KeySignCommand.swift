import ArgumentParser
import Crypto
import FoundationEssentials
import Glibc
import Latchkey

/// `latchkey key sign`.
struct KeySignCommand: ContextCommand {
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case raw
        case der
    }

    static let configuration = CommandConfiguration(
        commandName: "sign",
        abstract: "Sign a file or a SHA-256 digest: ECDSA over P-256, printed in base64url.",
        discussion: "Programs that want the bytes themselves (openssl dgst -signature) get them with --output.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    @Argument(help: "The file to sign; - for standard input.", completion: .file())
    var file: String?

    @Option(help: ArgumentHelp("The SHA-256 digest to sign, 64 hexadecimal digits.", valueName: "hex"))
    var digest: String?

    @Option(help: "raw: r and s, 32 bytes each, as JOSE has it. der: as X.509 and OpenSSL have it.")
    var format = Format.raw

    @Option(
        help: ArgumentHelp("Write the signature's bytes there and print nothing.", valueName: "file"),
        completion: .file())
    var output: String?

    func validate() throws {
        guard (file == nil) != (digest == nil) else {
            throw ValidationError("Give either a file or --digest.")
        }
        if let digest, Self.bytes(hex: digest)?.count != SHA256.byteCount {
            throw ValidationError("A SHA-256 digest has 64 hexadecimal digits.")
        }
    }

    func perform(in context: CommandContext) async throws -> SignatureReport {
        if let output { try Self.checkFolder(of: output) }
        let message = try messageDigest()
        let records = try await context.records()
        let stored = try await records.usableKey(key).key
        try await records.checkIsOwn(stored, to: "sign")
        let signature = try await records.keystore.sign(
            message, with: stored, for: context.prompt("sign with the key ‘\(stored.label ?? stored.id.rawValue)’"),
            authorizedBy: context.presence)
        let bytes = format == .raw ? signature.rawRepresentation : try signature.derRepresentation
        if let output { try Self.write(bytes, to: output) }
        return SignatureReport(
            id: stored.id.rawValue, format: format.rawValue, digest: Base64URL.encode(Data(message.bytes)),
            signature: Base64URL.encode(bytes), isPrinted: output == nil)
    }

    /// Before anybody is asked.
    private static func checkFolder(of path: String) throws(KeystoreError) {
        let folder = URL(filePath: path).deletingLastPathComponent().path
        guard path != "-" else {
            throw .invalidInput("write the signature to -", "standard output has it in base64url, without --output")
        }
        guard access(folder, W_OK | X_OK) == 0 else {
            throw .invalidInput("write the signature to \(path)", "\(folder): \(String(cString: strerror(errno)))")
        }
    }

    private static func write(_ bytes: Data, to path: String) throws(KeystoreError) {
        do {
            try bytes.write(to: URL(filePath: path), options: .atomic)
        } catch {
            let cause = (error as? CocoaError)?.underlying.map { "\($0)" } ?? "it can't be written"
            throw .invalidInput("write the signature to \(path)", cause)
        }
    }

    private func messageDigest() throws -> MessageDigest {
        if let digest, let bytes = Self.bytes(hex: digest), let message = MessageDigest(bytes: bytes) { return message }
        return try FileDigest.sha256(of: file ?? "-")
    }

    private static func bytes(hex: String) -> [UInt8]? {
        let digits = Array(hex.utf8)
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            let pair = String(decoding: digits[index..<index + 2], as: UTF8.self)
            guard pair.allSatisfy(\.isHexDigit), let byte = UInt8(pair, radix: 16) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }
}

struct SignatureReport: Report {
    let id: String
    let format: String
    let digest: String
    let signature: String
    /// Whether it is for stdout, where that is for people and pipes.
    let isPrinted: Bool

    private enum CodingKeys: String, CodingKey {
        case id, format, digest, signature
    }

    var text: String { isPrinted ? signature : "" }
}
