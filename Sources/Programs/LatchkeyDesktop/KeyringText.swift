internal import Crypto
package import Latchkey

/// A keyring's secret as text.
package enum KeyringText {
    private static let digits = Array("0123456789abcdef".utf8)
    /// The bytes of the checksum in ``recovery(of:)``.
    private static let checksumLength = 2
    private static let context = Array("latchkey keyring recovery 1".utf8)

    /// Two lowercase hexadecimal digits for each byte, in locked memory.
    package static func hexadecimal(_ secret: SecretBytes) -> SecretBytes {
        secret.withUnsafeBytes { bytes in
            SecretBytes(count: 2 * bytes.count) { target in
                for (index, byte) in bytes.enumerated() {
                    target[2 * index] = digits[Int(byte >> 4)]
                    target[2 * index + 1] = digits[Int(byte & 15)]
                }
            }
        }
    }

    /// - Returns: nil for an odd number of bytes, or bytes that are no hexadecimal digits.
    package static func bytes(ofHexadecimal text: SecretBytes) -> SecretBytes? {
        text.withUnsafeBytes { text in
            guard text.count % 2 == 0 else { return nil }
            var isValid = true
            let bytes = SecretBytes(count: text.count / 2) { target in
                for index in target.indices {
                    guard let high = value(text[2 * index]), let low = value(text[2 * index + 1])
                    else {
                        isValid = false
                        return
                    }
                    target[index] = high << 4 | low
                }
            }
            return isValid ? bytes : nil
        }
    }

    /// The recovery text of gnome-keyring's secret: its 64 digits, which the desktop's prompt
    /// accepts as they are, a hyphen, and four digits of a checksum.
    package static func recovery(of secret: SecretBytes) -> SecretBytes {
        let (text, checksum) = (hexadecimal(secret), hexadecimal(checksum(of: secret)))
        return SecretBytes(count: text.count + 1 + checksum.count) { target in
            text.withUnsafeBytes { target.copyMemory(from: $0) }
            target[text.count] = UInt8(ascii: "-")
            checksum.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: target[(text.count + 1)...])
                    .copyMemory(from: $0)
            }
        }
    }

    /// The secret of a recovery text that a person typed: upper and lower case, with spaces and
    /// hyphens anywhere.
    ///
    /// - Returns: nil if the length or the checksum is wrong.
    package static func secret(ofRecovery typed: SecretBytes) -> SecretBytes? {
        let ignored = Array(" -\t\r\n".utf8)
        let kept = typed.withUnsafeBytes { bytes in
            SecretBytes(count: bytes.count { !ignored.contains($0) }) { target in
                var next = 0
                for byte in bytes where !ignored.contains(byte) {
                    target[next] = byte
                    next += 1
                }
            }
        }
        let length = KeyringKind.gnome.secretLength
        guard let bytes = bytes(ofHexadecimal: kept), bytes.count == length + checksumLength else {
            return nil
        }
        return bytes.withUnsafeBytes { all in
            let secret = SecretBytes(count: length) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[..<length]))
            }
            let rest = SecretBytes(count: checksumLength) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[length...]))
            }
            return checksum(of: secret) == rest ? secret : nil
        }
    }

    private static func checksum(of secret: SecretBytes) -> SecretBytes {
        var hash = SHA256()
        hash.update(data: context)
        secret.withUnsafeBytes { hash.update(bufferPointer: $0) }
        return SecretBytes(hash.finalize().prefix(checksumLength))
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
