package import Latchkey

/// A request at the socket of the sign-in: one line of words with single spaces between them. Its
/// form is described in `Documentation/SignIn.md`.
package enum LoginRequest: Sendable {
    /// A program of PAM wants to sign a user in.
    case auth(service: String, terminal: String)
    /// The session part exchanges a handle for the secret of the user's keyring.
    case secret(handle: SecretBytes)
    /// PAM accepted this password.
    case learned(password: SecretBytes)
    /// PAM changed the password.
    case changed(old: SecretBytes, new: SecretBytes)
    case status
    case enrol(kind: String, secret: SecretBytes, password: SecretBytes, pin: PIN)
    /// Seals the secret under the PIN that is set now, or adds a copy under the password.
    case renew(password: SecretBytes, pin: PIN)
    case activate(generation: UInt64)
    case release(password: SecretBytes)
    /// - Parameter password: nil for a request of root without it.
    case remove(generation: UInt64, password: SecretBytes?)

    /// The maximum length of a line in bytes, without its end.
    package static let maximumLength = 2400

    /// Reads a line without its end.
    ///
    /// - Returns: nil for a line in another form, or with a value that is out of its bounds.
    package static func read(_ line: SecretBytes) -> (user: UInt32, request: LoginRequest)? {
        guard line.count <= maximumLength, let words = LoginWord.words(of: line),
            words.count >= 2, let verb = words[0].text, let user = words[1].user,
            let request = LoginRequest(verb, Array(words[2...]))
        else { return nil }
        return (user, request)
    }

    private init?(_ verb: String, _ words: [LoginWord]) {
        switch (verb, words.count) {
        case ("auth", 2):
            guard let service = words[0].text, let terminal = words[1].text else { return nil }
            self = .auth(service: service, terminal: terminal)
        case ("secret", 1):
            guard words[0].bytes.count == 64 else { return nil }
            self = .secret(handle: words[0].bytes)
        case ("learned", 1):
            guard let password = words[0].password else { return nil }
            self = .learned(password: password)
        case ("changed", 2):
            guard let old = words[0].password, let new = words[1].password else { return nil }
            self = .changed(old: old, new: new)
        case ("status", 0): self = .status
        case ("enrol", 5):
            // The first word is the user's name, which the service knows itself.
            guard let kind = words[1].text, let secret = words[2].hexadecimal(maximum: 64),
                let password = words[3].password, let pin = words[4].pin
            else { return nil }
            self = .enrol(kind: kind, secret: secret, password: password, pin: pin)
        case ("renew", 2):
            guard let password = words[0].password, let pin = words[1].pin else { return nil }
            self = .renew(password: password, pin: pin)
        case ("activate", 1):
            guard let generation = words[0].number else { return nil }
            self = .activate(generation: generation)
        case ("release", 1):
            guard let password = words[0].password else { return nil }
            self = .release(password: password)
        case ("remove", 2):
            guard let generation = words[0].number else { return nil }
            // Compared as bytes: a text of a password would stay in memory.
            guard words[1].bytes != SecretBytes("-".utf8) else {
                self = .remove(generation: generation, password: nil)
                return
            }
            guard let password = words[1].password else { return nil }
            self = .remove(generation: generation, password: password)
        default: return nil
        }
    }
}

/// The proof of a user, the second line of ``LoginRequest/auth(service:terminal:)``.
package enum LoginProof: Sendable {
    case pin(PIN)
    case finger

    /// The maximum length of a line in bytes, without its end.
    package static let maximumLength = 32

    /// Reads a line without its end.
    package init?(_ line: SecretBytes) {
        guard line.count <= Self.maximumLength, let words = LoginWord.words(of: line) else {
            return nil
        }
        switch (words[0].text, words.count) {
        case ("finger", 1): self = .finger
        case ("pin", 2):
            guard let pin = words[1].pin else { return nil }
            self = .pin(pin)
        default: return nil
        }
    }
}

/// A word of a line, in locked memory.
private struct LoginWord {
    /// The maximum length of a password in bytes.
    private static let maximumPassword = 512

    let bytes: SecretBytes

    /// - Returns: nil if a byte is no printable ASCII, or a word is empty. Otherwise at least one.
    static func words(of line: SecretBytes) -> [LoginWord]? {
        line.withUnsafeBytes { line in
            guard line.allSatisfy({ (0x20...0x7e).contains($0) }) else { return nil }
            let parts = line.split(
                separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            guard parts.count <= 8, parts.allSatisfy({ !$0.isEmpty }) else { return nil }
            return parts.map { part in
                LoginWord(
                    bytes: SecretBytes(count: part.count) {
                        $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
                    })
            }
        }
    }

    /// A short word that is no secret.
    var text: String? {
        guard bytes.count <= 64 else { return nil }
        return bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// A decimal number in its shortest form.
    var number: UInt64? {
        guard let text, let number = UInt64(text), "\(number)" == text else { return nil }
        return number
    }

    /// Not the invalid user id.
    var user: UInt32? { number.flatMap { UInt32(exactly: $0) }.flatMap { $0 == .max ? nil : $0 } }

    /// 4 to 16 digits.
    var pin: PIN? {
        bytes.withUnsafeBytes { digits in
            guard (4...16).contains(digits.count),
                digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
            else { return nil }
            return try? PIN(utf8: digits)
        }
    }

    var password: SecretBytes? { hexadecimal(maximum: Self.maximumPassword) }

    /// 1 to `maximum` bytes, two lower-case digits for each.
    func hexadecimal(maximum: Int) -> SecretBytes? {
        bytes.withUnsafeBytes { digits in
            guard digits.count % 2 == 0, (1...maximum).contains(digits.count / 2),
                digits.allSatisfy({ Self.value($0) != nil })
            else { return nil }
            return SecretBytes(count: digits.count / 2) { target in
                for index in target.indices {
                    let high = Self.value(digits[2 * index]) ?? 0
                    let low = Self.value(digits[2 * index + 1]) ?? 0
                    target[index] = high << 4 | low
                }
            }
        }
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
