internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials

extension Session {
    /// Which way a message goes. The sender's nonce is the newer one.
    enum Direction {
        case command, response
    }

    /// The HMAC over a command or response (TPM 2.0 Part 1 section 17.6.5).
    ///
    /// - Parameters:
    ///   - nonceTPM: The TPM's nonce that takes part: the old one in a command, the new one in a response.
    ///   - extraNonces: The nonces of other sessions that encrypt, in a command's first session.
    func hmac(
        of parameterHash: [UInt8], _ direction: Direction, nonceTPM: [UInt8], extraNonces: [UInt8] = [],
        attributes: SessionAttributes, authValue: AuthValue
    ) -> [UInt8] {
        let usesAuthValue = kind == .hmac || needsAuthValue
        let macKey = usesAuthValue ? key + authValue.key : key
        if kind != .hmac && macKey.bitCount == 0 { return [] }
        var mac = HMAC<SHA256>(key: macKey)
        mac.update(data: parameterHash)
        mac.update(data: direction == .command ? nonceCaller : nonceTPM)
        mac.update(data: direction == .command ? nonceTPM : nonceCaller)
        mac.update(data: extraNonces)
        mac.update(data: [attributes.rawValue])
        return Array(mac.finalize())
    }

    /// Encrypts a command's or decrypts a response's first parameter: AES-128-CFB under a key of this message (TPM 2.0
    /// Part 1 section 19.3).
    func crypt(_ bytes: [UInt8], _ direction: Direction, authValue: AuthValue) throws(TPMError) -> [UInt8] {
        let keyAndIV = KeyDerivation.kdfa(
            key: key + authValue.key, label: "CFB", contextU: direction == .command ? nonceCaller : nonceTPM,
            contextV: direction == .command ? nonceTPM : nonceCaller, count: 32)
        let cipherKey = keyAndIV.slice(0..<16)
        let iv = keyAndIV.slice(16..<32).withUnsafeBytes { Array($0) }
        do {
            let iv = try AES._CFB.IV(ivBytes: iv)
            var result =
                switch direction {
                case .command: try AES._CFB.encrypt(bytes, using: cipherKey, iv: iv)
                case .response: try AES._CFB.decrypt(bytes, using: cipherKey, iv: iv)
                }
            defer { result.resetBytes(in: result.startIndex..<result.endIndex) }
            return Array(result)
        } catch {
            throw .unsupported("a parameter can't be encrypted: \(error)")
        }
    }
}
