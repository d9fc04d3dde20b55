import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// A random text that stands for something in the database. The database has only its ``digest(_:)``.
enum OpaqueToken {
    /// 32 letters and digits: 190 bits.
    static func alphanumeric(_ random: RandomSource) -> String {
        let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        var text: [UInt8] = []
        while text.count < 32 {
            // Bytes from 248 on would make some letters likelier than others.
            text += random.bytes(40).lazy.filter { $0 < 248 }.map { alphabet[Int($0) % alphabet.count] }
        }
        return String(decoding: text.prefix(32), as: UTF8.self)
    }

    /// 32 random bytes in base64url.
    static func bytes(_ random: RandomSource) -> String {
        Base64URL.encode(random.bytes(32))
    }

    /// SHA-256 of the text, 32 bytes.
    static func digest(_ token: String) -> Data {
        Data(MessageDigest(sha256: token.utf8).bytes)
    }
}
