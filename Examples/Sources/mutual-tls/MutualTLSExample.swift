import Foundation
import Latchkey
import LatchkeyCertificates
import LatchkeyPresence
import LatchkeyTPM
import NIOCore
import NIOPosix
import NIOSSL
import X509

/// A TLS client that proves itself with a key in the TPM (RFC 8446 section 4.4.2).
@main
struct MutualTLSExample {
    static let usage = """
        Usage: mutual-tls request NAME > FILE
                 create a key, and print a certificate request for it
               mutual-tls get HOST PORT CERTIFICATE CA-FILE
                 print the page / of the server, which requires a certificate of a client
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            let text = "\(error) \((error as? any ReportableError)?.recovery ?? "")\n"
            try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
            exit(1)
        }
    }

    static func run(_ arguments: [String]) async throws {
        switch (arguments.first, arguments.count) {
        case ("request", 2): try await request(for: arguments[1])
        case ("get", 5):
            try await get(
                from: arguments[1], port: Int(arguments[2]) ?? 443, certificate: arguments[3],
                authorities: arguments[4])
        default:
            print(usage)
            exit(2)
        }
    }

    /// Creates a key with a PIN. The file of the key contains no secret.
    static func request(for name: String) async throws {
        let identity = try await Identity.open()
        let prompt = PromptContext(reason: "create a certificate request")
        let key = try await identity.keystore.createKey(
            KeyRequest(policy: .pin, prompt: prompt), authorizedBy: Identity.presence)
        let request = try await identity.keystore.certificateSigningRequest(
            subject: DistinguishedName { CommonName(name) }, with: key, for: prompt,
            authorizedBy: Identity.presence)
        try JSONEncoder().encode(key).write(to: identity.file)
        print(try request.serializeAsPEM().pemString)
    }

    static func get(
        from host: String, port: Int, certificate: String, authorities: String
    ) async throws {
        let identity = try await Identity.open()
        let key = try JSONDecoder().decode(
            HardwareKey.self, from: Data(contentsOf: identity.file))
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(authorities)
        configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate).map {
            .certificate($0)
        }
        configuration.privateKey = .privateKey(
            NIOSSLPrivateKey(
                customPrivateKey: TLSKey(
                    key: key, keystore: identity.keystore, presence: Identity.presence,
                    reason: "log in to \(host)")))
        let context = try NIOSSLContext(configuration: configuration)

        let connection = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: host, port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: context, serverHostname: host))
                    return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel)
                }
            }
        try await connection.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: "GET / HTTP/1.0\r\nHost: \(host)\r\n\r\n"))
            for try await part in inbound { print(String(buffer: part), terminator: "") }
        }
    }
}

/// The keystore, and the place of the key.
struct Identity {
    static let presence = TerminalPresence(application: "Mutual TLS")

    let keystore: TPMKeystore
    let file: URL

    static func open() async throws -> Identity {
        let environment = ProcessInfo.processInfo.environment
        let directory = try RecordStore.defaultDirectory(environment: environment)
        let store = try await RecordStore(directory: directory, profile: "mutual-tls")
        return Identity(
            keystore: TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store),
            file: URL(filePath: directory).appending(path: "mutual-tls/key.json"))
    }
}
