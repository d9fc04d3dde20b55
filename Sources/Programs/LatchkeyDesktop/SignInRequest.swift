package import Latchkey

/// A request at the socket of the sign-in: one line of words with single spaces between them. Its
/// form is described in `Documentation/SignIn.md`.
package enum SignInRequest: Sendable {
    /// A program of PAM wants to sign a user in. The module states the account's name, because
    /// another account can get its number.
    case auth(name: String, service: String, terminal: String)
    /// The session part exchanges a handle for the secret of the user's keyring.
    case secret(name: String, handle: SecretBytes)
    /// PAM accepted the user, who typed this text.
    ///
    /// - Parameter isChecked: Whether it is the account's password for certain. Otherwise PAM may
    ///   have refused it, and accepted another factor.
    case learned(name: String, isChecked: Bool, password: SecretBytes)
    /// PAM changed the password.
    case changed(name: String, old: SecretBytes, new: SecretBytes)
    case status
    case enrol(kind: String, secret: SecretBytes, password: SecretBytes, proof: SignInProof)
    /// Seals the secret under the PIN that is set now or for a finger alone, and adds a copy under the
    /// password if none has it.
    case renew(password: SecretBytes, proof: SignInProof)
    case activate(generation: UInt64)
    case release(password: SecretBytes)
    /// - Parameter password: nil for root, who ends the sign-in (generation 0) or deletes a record
    ///   without it.
    case remove(generation: UInt64, password: SecretBytes?)

    /// The maximum length of a line in bytes, without its end.
    package static let maximumLength = 2624
    /// The lengths of the PINs that sign in. A sign-in takes other digits as a password.
    package static let pinLengths = 6...16

    /// Reads a line without its end.
    ///
    /// - Returns: nil for a line in another form, or with a value that is out of its bounds.
    package static func read(_ line: SecretBytes) -> (user: UInt32, request: SignInRequest)? {
        guard line.count <= maximumLength, let words = line.receivedWords,
            words.count >= 2, let verb = words[0].shortText, let user = words[1].user,
            let request = SignInRequest(verb, Array(words[2...]))
        else { return nil }
        return (user, request)
    }

    private init?(_ verb: String, _ words: [SecretBytes]) {
        switch (verb, words.count) {
        case ("auth", 3):
            guard let name = words[0].name, let service = words[1].shortText,
                let terminal = words[2].shortText
            else { return nil }
            self = .auth(name: name, service: service, terminal: terminal)
        case ("secret", 2):
            guard let name = words[0].name, words[1].count == 64 else { return nil }
            self = .secret(name: name, handle: words[1])
        case ("learned", 3):
            guard let name = words[0].name, let proof = words[1].shortText,
                ["checked", "unchecked"].contains(proof), let password = words[2].password
            else { return nil }
            self = .learned(name: name, isChecked: proof == "checked", password: password)
        case ("changed", 3):
            guard let name = words[0].name, let old = words[1].password,
                let new = words[2].password
            else { return nil }
            self = .changed(name: name, old: old, new: new)
        case ("status", 0): self = .status
        case ("enrol", 4):
            guard let kind = words[0].shortText, let secret = words[1].hexadecimal(maximum: 64),
                let password = words[2].password, let proof = words[3].proof
            else { return nil }
            self = .enrol(kind: kind, secret: secret, password: password, proof: proof)
        case ("renew", 2):
            guard let password = words[0].password, let proof = words[1].proof else { return nil }
            self = .renew(password: password, proof: proof)
        case ("activate", 1):
            guard let generation = words[0].number else { return nil }
            self = .activate(generation: generation)
        case ("release", 1):
            guard let password = words[0].password else { return nil }
            self = .release(password: password)
        case ("remove", 2):
            guard let generation = words[0].number else { return nil }
            // Compared as bytes: a text of a password would stay in memory.
            guard words[1] != SecretBytes("-".utf8) else {
                self = .remove(generation: generation, password: nil)
                return
            }
            guard let password = words[1].password else { return nil }
            self = .remove(generation: generation, password: password)
        default: return nil
        }
    }
}

/// The proof of a user: the second line of ``SignInRequest/auth(name:service:terminal:)``, and a word
/// of a request that seals a secret.
package enum SignInProof: Sendable {
    case pin(PIN)
    case finger

    package var pin: PIN? {
        if case .pin(let pin) = self { pin } else { nil }
    }

    /// The maximum length of a line in bytes, without its end.
    package static let maximumLength = 32

    /// Reads a line without its end.
    package init?(_ line: SecretBytes) {
        guard line.count <= Self.maximumLength, let words = line.receivedWords else {
            return nil
        }
        switch (words[0].shortText, words.count) {
        case ("finger", 1): self = .finger
        case ("pin", 2):
            guard let pin = words[1].pin else { return nil }
            self = .pin(pin)
        default: return nil
        }
    }
}

/// A received line, or a word of it, in locked memory.
extension SecretBytes {
    private static let maximumWords = 8
    /// The maximum length of a password in bytes.
    private static let maximumPassword = 512
    /// The maximum length of an account's name in bytes (`LOGIN_NAME_MAX`).
    private static let maximumName = 256

    /// The words of a received line.
    ///
    /// - Returns: nil if a byte is no printable ASCII, or a word is empty. Otherwise at least one.
    fileprivate var receivedWords: [SecretBytes]? {
        let isAcceptable = withUnsafeBytes { bytes in
            bytes.allSatisfy { (0x20...0x7e).contains($0) }
                && bytes.count { $0 == UInt8(ascii: " ") } < Self.maximumWords
        }
        guard isAcceptable else { return nil }
        let words = words
        return words.allSatisfy { $0.count > 0 } ? words : nil
    }

    /// A short word that is no secret.
    fileprivate var shortText: String? { count <= 64 ? text : nil }

    /// A decimal number in its shortest form.
    fileprivate var number: UInt64? {
        guard let text = shortText, let number = UInt64(text), "\(number)" == text else {
            return nil
        }
        return number
    }

    /// Not the invalid user id.
    fileprivate var user: UInt32? {
        number.flatMap { UInt32(exactly: $0) }.flatMap { $0 == .max ? nil : $0 }
    }

    /// Compared as bytes: a text of a PIN would stay in memory.
    fileprivate var proof: SignInProof? {
        self == .word("finger") ? .finger : pin.map { .pin($0) }
    }

    fileprivate var pin: PIN? {
        withUnsafeBytes { digits in
            guard SignInRequest.pinLengths.contains(digits.count),
                digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
            else { return nil }
            return try? PIN(utf8: digits)
        }
    }

    fileprivate var password: SecretBytes? { hexadecimal(maximum: Self.maximumPassword) }

    /// Two names are never the same text.
    fileprivate var name: String? {
        hexadecimal(maximum: Self.maximumName)?.withUnsafeBytes {
            String(validating: $0, as: UTF8.self)
        }
    }

    /// 1 to `maximum` bytes, two lower-case digits for each.
    fileprivate func hexadecimal(maximum: Int) -> SecretBytes? {
        let isLowercase = withUnsafeBytes {
            !$0.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        }
        guard (1...(2 * maximum)).contains(count), isLowercase else { return nil }
        return KeyringText.bytes(ofHexadecimal: self)
    }
}
