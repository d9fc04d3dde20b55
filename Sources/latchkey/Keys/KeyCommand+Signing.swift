import ArgumentParser
import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyCertificates
import SwiftASN1
import X509

extension KeyCommand {
    /// `latchkey key sign`.
    struct Sign: ContextCommand {
        enum Format: String, ExpressibleByArgument, CaseIterable {
            case raw
            case der
        }

        static let configuration = CommandConfiguration(
            commandName: "sign",
            abstract: "Sign a file or a SHA-256 digest with ECDSA P-256, and print the signature in base64url.",
            discussion: """
                With --output, the command writes the signature bytes to a file, as ‘openssl dgst -signature’ reads \
                them.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Argument(help: KeyIDArgument.help)
        var key: KeyIDArgument

        @Argument(help: "The file to sign; - for standard input.", completion: .file())
        var file: String?

        @Option(help: ArgumentHelp("The SHA-256 digest to sign, 64 hexadecimal digits.", valueName: "hex"))
        var digest: String?

        @Option(help: "raw: r and s, 32 bytes each, as in JOSE. der: as in X.509 and OpenSSL.")
        var format = Format.raw

        @Option(
            help: ArgumentHelp("Write the signature bytes to this file, and print nothing.", valueName: "file"),
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

        /// Checks that the output can be written, before the prompt.
        private static func checkFolder(of path: String) throws(KeystoreError) {
            let folder = URL(filePath: path).deletingLastPathComponent().path
            guard path != "-" else {
                throw .invalidInput(
                    "write the signature to -", "without --output, standard output has the signature in base64url")
            }
            guard access(folder, W_OK | X_OK) == 0 else {
                throw .invalidInput("write the signature to \(path)", "\(folder): \(String(cString: strerror(errno)))")
            }
        }

        private static func write(_ bytes: Data, to path: String) throws(KeystoreError) {
            do {
                try bytes.write(to: URL(filePath: path), options: .atomic)
            } catch {
                let cause = (error as? CocoaError)?.underlying.map { "\($0)" } ?? "it cannot be written"
                throw .invalidInput("write the signature to \(path)", cause)
            }
        }

        private func messageDigest() throws -> MessageDigest {
            if let digest, let bytes = Self.bytes(hex: digest), let message = MessageDigest(bytes: bytes) {
                return message
            }
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

    /// `latchkey key csr`.
    struct CSR: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "csr",
            abstract: "Print a certificate signing request (PKCS #10, PEM), signed with the key.",
            discussion: """
                Send the request to a certification authority. The certificate is valid only for this key.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Argument(help: KeyIDArgument.help)
        var key: KeyIDArgument

        @Option(
            help: ArgumentHelp(
                "The subject's name (RFC 4514), most specific part first: ‘CN=Ann,O=Example,C=SE’.", valueName: "name"
            ))
        var subject: String

        func perform(in context: CommandContext) async throws -> CSRReport {
            let subject = try DistinguishedName(rfc4514: subject)
            let records = try await context.records()
            let stored = try await records.usableKey(key).key
            try await records.checkIsOwn(stored, to: "sign a certificate request")
            let request = try await records.keystore.certificateSigningRequest(
                subject: subject, with: stored,
                for: context.prompt("sign a certificate request with the key ‘\(stored.label ?? stored.id.rawValue)’"),
                authorizedBy: context.presence)
            return CSRReport(id: stored.id.rawValue, csr: try request.serializeAsPEM().pemString + "\n")
        }
    }
}

struct SignatureReport: Report {
    let id: String
    let format: String
    let digest: String
    let signature: String
    /// Whether stdout has the signature without `--json`.
    let isPrinted: Bool

    private enum CodingKeys: String, CodingKey {
        case id, format, digest, signature
    }

    var text: String { isPrinted ? signature : "" }
}

struct CSRReport: Report {
    let id: String
    /// PEM.
    let csr: String

    var text: String { csr }
}

/// The digest of a file of any size.
enum FileDigest {
    /// - Parameter path: `-` for standard input.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that cannot be read.
    static func sha256(of path: String) throws(KeystoreError) -> MessageDigest {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(path) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var hash = SHA256()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw unreadable(path) }
            guard count > 0 else { return MessageDigest(hash.finalize()) }
            hash.update(data: buffer[..<count])
        }
    }

    private static func unreadable(_ path: String) -> KeystoreError {
        .invalidInput("read \(path)", strerror(errno).map { String(cString: $0) } ?? "error \(errno)")
    }
}
