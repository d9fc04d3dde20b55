import Latchkey
import NIOCore
import NIOSSL

/// A private key in hardware for SwiftNIO's TLS, in a client or a server. Each handshake prompts for
/// the PIN. With `PKCS11Keystore`, the key is on a token.
struct TLSKey: NIOSSLCustomPrivateKey, Hashable {
    let key: HardwareKey
    let keystore: any Keystore
    let presence: any PresenceAuthority
    /// The text of the prompt.
    let reason: String

    var signatureAlgorithms: [SignatureAlgorithm] { [.ecdsaSecp256R1Sha256] }

    func sign(
        channel: any Channel, algorithm: SignatureAlgorithm, data: ByteBuffer
    ) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFutureWithTask {
            let signature = try await keystore.sign(
                MessageDigest(sha256: data.readableBytesView), with: key,
                for: PromptContext(reason: reason), authorizedBy: presence)
            return ByteBuffer(bytes: try signature.derRepresentation)
        }
    }

    /// Only for RSA keys.
    func decrypt(channel: any Channel, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
    }

    static func == (left: TLSKey, right: TLSKey) -> Bool { left.key == right.key }

    func hash(into hasher: inout Hasher) { hasher.combine(key) }
}
