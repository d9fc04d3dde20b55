internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The service of the sign-in at its socket. Each request is a connection of its own: one line of
/// words, then one line as the answer. Blocks its thread.
package struct SignInSocket: SignInClient {
    package static let standardPath = "/run/latchkey/login"
    /// The maximum length of an answer in bytes, without its end.
    static let maximumAnswer = 511

    private let path: String
    private let user: UInt32
    private let owner: UInt32
    private let limit: Duration
    private let onTouch: @Sendable () -> Void

    /// - Parameters:
    ///   - user: The user of the record.
    ///   - owner: The user who must listen: root, because systemd creates the service's socket.
    ///   - limit: The time for an answer, and for a finger. The protocol's longest are ten seconds.
    ///   - onTouch: Called when the reader waits for a finger.
    package init(
        path: String = SignInSocket.standardPath, user: UInt32, owner: UInt32 = 0,
        limit: Duration = .seconds(15), onTouch: @escaping @Sendable () -> Void = {}
    ) {
        (self.path, self.user) = (path, user)
        (self.owner, self.limit, self.onTouch) = (owner, limit, onTouch)
    }

    package func status() throws(CommonError) -> SignInStatus {
        let answer = try ask([.word("status")])
        guard let status = SignInStatus(words: answer.map(\.text)) else { throw Self.unexpected }
        return status
    }

    package func enrol(
        _ kind: KeyringKind, secret: SecretBytes, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> UInt64 {
        try generation(
            ask([
                .word("enrol"), .word(kind.description), KeyringText.hexadecimal(secret),
                KeyringText.hexadecimal(password), .word(of: proof),
            ]))
    }

    package func renew(password: SecretBytes, proof: SignInProof) throws(CommonError) -> UInt64 {
        let words: [SecretBytes] = [
            .word("renew"), KeyringText.hexadecimal(password), .word(of: proof),
        ]
        return try generation(ask(words))
    }

    package func activate(generation: UInt64) throws(CommonError) {
        _ = try self.generation(ask([.word("activate"), .word("\(generation)")]))
    }

    package func release(password: SecretBytes) throws(CommonError) -> SecretBytes {
        let answer = try ask([.word("release"), KeyringText.hexadecimal(password)])
        guard answer.count == 3, answer[0].text == "secret",
            let kind = KeyringKind(name: answer[1].text),
            let secret = KeyringText.bytes(ofHexadecimal: answer[2]),
            secret.count == kind.secretLength
        else { throw Self.unexpected }
        return secret
    }

    package func remove(generation: UInt64, password: SecretBytes) throws(CommonError) {
        let words: [SecretBytes] = [
            .word("remove"), .word("\(generation)"), KeyringText.hexadecimal(password),
        ]
        _ = try self.generation(ask(words))
    }

    /// Ends the sign-in of the user, which only root can request. The copies of the secret stay, so that
    /// the keyring is not lost, unless the account does not exist any more.
    package func end() throws(CommonError) {
        _ = try generation(ask([.word("remove"), .word("0"), .word("-")]))
    }

    /// Deletes the record of the user, also one that no password opens, which only root can request.
    package func delete(generation: UInt64) throws(CommonError) {
        let words: [SecretBytes] = [.word("remove"), .word("\(generation)"), .word("-")]
        _ = try self.generation(ask(words))
    }

    // MARK: The exchange

    /// Sends a request, whose second word is the user, and reads the words of the answer.
    private func ask(_ words: [SecretBytes]) throws(CommonError) -> [SecretBytes] {
        let line = SecretBytes.line([words[0], .word("\(user)")] + words.dropFirst())
        let answer: SecretBytes
        do throws(DeadlineStream.Failure) {
            answer = try exchange(line)
        } catch {
            throw Self.described(error)
        }
        let answered = answer.words
        switch answered.first?.text {
        case "error": throw Self.refusal(answered.last?.text ?? "")
        case "no" where answered.count == 1: throw CommonError.otherFinger()
        case "no": throw Self.wrongPIN(answered.last.flatMap { Int($0.text) })
        case "none" where words.last == .word("finger"): throw Self.noFinger
        case "locked":
            throw CommonError(
                code: .lockedOut, reason: "the TPM no longer accepts your PIN",
                recovery: "Ask an administrator to reset the count, then try again.")
        default: return answered
        }
    }

    private func exchange(_ line: SecretBytes) throws(DeadlineStream.Failure) -> SecretBytes {
        let connection = try DeadlineConnection(path, until: .now + limit)
        guard PeerCredentials(of: connection.stream.descriptor)?.user == owner else {
            throw .system(SystemError(EPERM))
        }
        try connection.stream.send(line)
        var answer = try connection.stream.receiveLine(maximum: Self.maximumAnswer)
        let touch = SecretBytes.word("touch\n")
        while answer == .word("touch")
            || answer.count > touch.count && answer.part(0..<touch.count) == touch
        {
            onTouch()
            // Lines that arrive together are one text.
            answer =
                answer.count > touch.count
                ? answer.part(touch.count..<answer.count)
                : try DeadlineStream(connection.stream.descriptor, until: .now + limit * 2)
                    .receiveLine(maximum: Self.maximumAnswer)
        }
        return answer
    }

    private func generation(_ answer: [SecretBytes]) throws(CommonError) -> UInt64 {
        guard answer.count == 2, answer[0].text == "done", let value = UInt64(answer[1].text) else {
            throw Self.unexpected
        }
        return value
    }

    // MARK: Errors

    package static let unexpected = CommonError(
        code: .failed, reason: "the service gave an answer that this program does not know",
        recovery: "Install the same version of all packages of Latchkey.")

    private static let noFinger = CommonError(
        code: .unavailable, reason: "the service did not verify a finger",
        recovery:
            "Try again in an unlocked session at this machine, without a remote one, and place the finger within ten seconds. After three attempts, wait a minute."
    )

    private static func wrongPIN(_ left: Int?) -> CommonError {
        CommonError(
            code: .wrongProof, reason: "the PIN is wrong",
            recovery: "Try again with the right PIN.", attemptsLeft: left)
    }

    private static func refusal(_ word: String) -> CommonError {
        switch word {
        case "exists":
            .conflict("the service has a record of this user already")
        case "absent":
            .notFound(
                "the service has no record of this user", recovery: "Enable the sign-in first.")
        case "account":
            CommonError(
                code: .wrongState,
                reason: "the service has a record of an earlier account with this user's number",
                recovery: "Ask an administrator to end the sign-in of this user, then try again.")
        case "busy":
            CommonError(
                code: .transient, reason: "the service works for another user",
                recovery: "Try again.")
        case "generation":
            .conflict("another program has changed the record of this user")
        case "pin": .noPIN
        case "password":
            CommonError(
                code: .wrongProof, reason: "the login password does not open the record",
                recovery:
                    "If the login password was changed, enable the sign-in again: the PIN then adds a copy under the new one. If another program stored the record, ask an administrator to delete it."
            )
        case "tpm":
            CommonError(
                code: .unavailable, reason: "the service cannot use the TPM",
                recovery: Recovery("Check the TPM, then try again.", .diagnose))
        case "store":
            CommonError(
                code: .failed, reason: "the service cannot write or read its record",
                recovery: "Look for its messages in the journal, and free disk space.")
        default: unexpected
        }
    }

    private static func described(_ failure: DeadlineStream.Failure) -> CommonError {
        let reason: String
        switch failure {
        case .absent: reason = "the service of the sign-in does not run"
        case .late: reason = "the service of the sign-in did not answer in time"
        // Also for a request over a limit.
        case .closed:
            return CommonError(
                code: .unavailable, reason: "the service of the sign-in refused the request",
                recovery:
                    "Install the package libpam-latchkey, or wait a minute, and check latchkey-presenced.service."
            )
        case .system(let error) where error.number == EPERM:
            return CommonError(
                code: .refused, reason: "the service's socket does not belong to root",
                recovery: "Ask the administrator of this machine to check it.")
        case .system(let error): reason = "the service's socket cannot be used: \(error)"
        }
        return CommonError(
            code: .unavailable, reason: reason,
            recovery:
                "Install the package libpam-latchkey, and check latchkey-login.socket and latchkey-presenced.service."
        )
    }
}

extension CommonError {
    /// The user has no PIN that could sign in.
    package static let noPIN = CommonError(
        code: .passcodeNotSet, reason: "you have no PIN in the TPM",
        recovery: "Create a key with the policy ‘pin’, which sets your PIN, then try again.")
}

extension SecretBytes {
    /// A word that is no secret.
    package static func word(_ text: String) -> SecretBytes { SecretBytes(text.utf8) }

    /// The digits of a PIN, or `finger`.
    static func word(of proof: SignInProof) -> SecretBytes {
        guard let pin = proof.pin else { return .word("finger") }
        return pin.withUnsafeBytes { bytes in
            SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) }
        }
    }

    /// Words that are no secrets, with spaces between them, and the end of a line.
    package static func line(_ words: String...) -> SecretBytes { line(words.map(word)) }

    /// Words with spaces between them, and the end of a line.
    package static func line(_ words: [SecretBytes]) -> SecretBytes {
        let separated = words.flatMap { [$0, SecretBytes.word(" ")] }.dropLast() + [.word("\n")]
        return SecretBytes(count: separated.reduce(0) { $0 + $1.count }) { target in
            var next = 0
            for part in separated {
                part.withUnsafeBytes {
                    UnsafeMutableRawBufferPointer(rebasing: target[next..<(next + $0.count)])
                        .copyMemory(from: $0)
                }
                next += part.count
            }
        }
    }

    /// The words between single spaces.
    var words: [SecretBytes] {
        let spaces = withUnsafeBytes { bytes in
            bytes.indices.filter { bytes[$0] == UInt8(ascii: " ") }
        }
        return zip([-1] + spaces, spaces + [count]).map { part(($0 + 1)..<$1) }
    }

    /// A copy of some bytes.
    func part(_ range: Range<Int>) -> SecretBytes {
        withUnsafeBytes { bytes in
            SecretBytes(count: range.count) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[range]))
            }
        }
    }
}
