import ArgumentParser
import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyCertificates
import LatchkeyServices
import SwiftASN1
import SystemPackage
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
            abstract:
                "Sign a file or a SHA-256 digest with ECDSA P-256, and print the signature in base64url.",
            discussion: """
                With --output, the command writes the signature bytes to a file, as ‘openssl dgst -signature’ reads \
                them.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Argument(help: "The file to sign; - for standard input.", completion: .file()) var file:
            String?

        @Option(
            help: ArgumentHelp(
                "The SHA-256 digest to sign, 64 hexadecimal digits.", valueName: "hex"))
        var digest: String?

        @Option(help: "raw: r and s, 32 bytes each, as in JOSE. der: as in X.509 and OpenSSL.")
        var format = Format.raw

        @Option(
            help: ArgumentHelp(
                "Write the signature bytes to this file, and print nothing.", valueName: "file"),
            completion: .file())
        var output: String?

        func validate() throws {
            guard (file == nil) != (digest == nil) else {
                throw ValidationError(
                    file == nil
                        ? "The data to sign is missing: add ‘<file>’ (‘-’ for standard input) or ‘--digest <hex>’."
                        : "Give ‘<file>’ or ‘--digest <hex>’, not both.")
            }
            if let digest, Self.messageDigest(hex: digest) == nil {
                throw ValidationError("A SHA-256 digest has 64 hexadecimal digits.")
            }
        }

        var operation: String? { "sign" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let outputFile = output.map(OutputFile.init(path:))
            try outputFile?.check(besidesInput: digest == nil ? file : nil)
            let message =
                try digest.flatMap(Self.messageDigest) ?? FileDigest.sha256(of: file ?? "-")
            let records = try await context.records()
            let stored = try await records.ownKey(key).key
            let signature = try await records.keystore.sign(
                message, with: stored, for: context.prompt("sign with the key ‘\(stored.name)’"),
                authorizedBy: context.presence)
            let bytes =
                format == .raw ? signature.rawRepresentation : try signature.derRepresentation
            // The path can be /dev/stdout.
            if outputFile != nil { StandardStreams.shareOutput() }
            try await outputFile?.write(Array(bytes))
            let text = Base64URL.encode(bytes)
            return BriefReport(
                [
                    "id": stored.id.rawValue, "format": format.rawValue, "signature": text,
                    "digest": Base64URL.encode(Data(message.bytes)),
                ], data: output == nil ? text : "")
        }

        private static func messageDigest(hex: String) -> MessageDigest? {
            guard hex.allSatisfy({ $0.isASCII && $0.isHexDigit }),
                hex.utf8.count == 2 * SHA256.byteCount
            else {
                return nil
            }
            let digits = hex.compactMap(\.hexDigitValue)
            return MessageDigest(
                bytes: stride(from: 0, to: digits.count, by: 2).map {
                    UInt8(digits[$0] << 4 | digits[$0 + 1])
                })
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

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Option(
            help: ArgumentHelp(
                "The subject's name (RFC 4514), most specific part first: ‘CN=Ann,O=Example,C=SE’.",
                valueName: "name"
            ))
        var subject: String

        var operation: String? { "create the certificate request" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let subject = try DistinguishedName(rfc4514: subject)
            let records = try await context.records()
            let stored = try await records.ownKey(key).key
            let request = try await records.keystore.certificateSigningRequest(
                subject: subject, with: stored,
                for: context.prompt("sign a certificate request with the key ‘\(stored.name)’"),
                authorizedBy: context.presence)
            let pem = try request.serializeAsPEM().pemString + "\n"
            return BriefReport(["id": stored.id.rawValue, "csr": pem], data: pem)
        }
    }
}

/// The digest of a file of any size.
enum FileDigest {
    /// - Parameter path: `-` for standard input.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that cannot be read.
    static func sha256(of path: String) throws(KeystoreError) -> MessageDigest {
        do {
            guard path != "-" else {
                StandardStreams.noteInputRead()
                return try sha256(of: .standardInput)
            }
            let file = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
            return try file.closeAfter { try sha256(of: file) }
        } catch {
            throw KeystoreError(
                code: .invalidInput,
                reason: "\(path == "-" ? "standard input" : path) cannot be read: \(error)",
                recovery: "Name a file that you can read, or ‘-’ for standard input.")
        }
    }

    private static func sha256(of file: FileDescriptor) throws -> MessageDigest {
        var hash = SHA256()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = try buffer.withUnsafeMutableBytes { try file.read(into: $0) }
            guard count > 0 else { return MessageDigest(hash.finalize()) }
            hash.update(data: buffer[..<count])
        }
    }
}
