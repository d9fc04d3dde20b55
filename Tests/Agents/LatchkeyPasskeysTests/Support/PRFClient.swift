import Crypto
import CryptoExtras
import FoundationEssentials
import Latchkey
import Testing

/// The client's side of the extension `hmac-secret`.
struct PRFClient {
    private let version: Int
    private let publicKey: CBORValue
    private let macKey: SymmetricKey
    private let encryptionKey: SymmetricKey

    init(agreement: CBORValue?, version: Int) throws {
        let cose = try #require(agreement?.map)
        #expect(cose[3] == .integer(-25))
        let (x, y) = (try #require(cose[-2]?.bytes), try #require(cose[-3]?.bytes))
        let key = P256.KeyAgreement.PrivateKey()
        let shared = try key.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(x963Representation: [4] + x + y))
        let point = Array(key.publicKey.x963Representation)
        publicKey = .map([
            1: .integer(2), 3: .integer(-25), -1: .integer(1), -2: .bytes(Array(point[1..<33])),
            -3: .bytes(Array(point[33...])),
        ])
        self.version = version
        if version == 2 {
            func derive(_ info: String) -> SymmetricKey {
                shared.hkdfDerivedSymmetricKey(
                    using: SHA256.self, salt: Data(count: 32), sharedInfo: Data(info.utf8),
                    outputByteCount: 32)
            }
            macKey = derive("CTAP2 HMAC key")
            encryptionKey = derive("CTAP2 AES key")
        } else {
            macKey = shared.withUnsafeBytes { SymmetricKey(data: Data(SHA256.hash(data: $0))) }
            encryptionKey = macKey
        }
    }

    /// - Parameter stated: The version that the request states; nil for none.
    func request(
        _ salts: [[UInt8]], damaged: Bool = false, stating stated: Int? = nil
    ) throws -> CBORValue {
        let iv = [UInt8](repeating: version == 2 ? 9 : 0, count: 16)
        let body = try AES._CBC.encrypt(
            salts.flatMap(\.self), using: encryptionKey, iv: AES._CBC.IV(ivBytes: iv),
            noPadding: true)
        let encrypted = (version == 2 ? iv : []) + body
        var tag = Array(HMAC<SHA256>.authenticationCode(for: encrypted, using: macKey)).prefix(
            version == 2 ? 32 : 16)
        if damaged { tag[0] ^= 1 }
        var members: [CBORKey: CBORValue] = [
            1: publicKey, 2: .bytes(encrypted), 3: .bytes(Array(tag)),
        ]
        members[4] = stated.map { .integer($0) }
        return .map(members)
    }

    func decrypt(_ bytes: [UInt8]) throws -> [UInt8] {
        let iv = version == 2 ? Array(bytes.prefix(16)) : [UInt8](repeating: 0, count: 16)
        return Array(
            try AES._CBC.decrypt(
                version == 2 ? Array(bytes.dropFirst(16)) : bytes, using: encryptionKey,
                iv: AES._CBC.IV(ivBytes: iv), noPadding: true))
    }
}
