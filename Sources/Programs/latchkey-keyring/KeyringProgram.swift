import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform

/// `latchkey-keyring KIND`: opens the user's keyring with a secret from standard input.
///
/// The PAM module starts it in the session, with the user's ids and the raw secret on a pipe. It
/// never prompts, and ends within the time limit: a sign-in does not wait for a keyring.
@main
struct KeyringProgram {
    /// The exit status. The PAM module and scripts depend on the numbers.
    enum Outcome: Int32 {
        /// The keyring is open, or the wallet daemon has the key.
        case opened = 0
        /// The keyring has another secret.
        case denied = 1
        /// There is no keyring, or no daemon that opens it in time.
        case unavailable = 2
        /// Wrong arguments, input or user.
        case misused = 3
    }

    /// The keyring's daemon starts at the same time, on a cold machine in several seconds.
    private static let limit: Duration = .seconds(15)

    static func main() {
        ProcessMemory.protect()
        signal(SIGPIPE) { _ in }
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Tests on a busy machine give a longer limit, in seconds.
        let seconds = arguments.count == 2 ? UInt16(arguments[1]) : nil
        let outcome = open(
            seconds == nil ? arguments : [arguments[0]],
            until: .now + (seconds.map { .seconds($0) } ?? limit),
            environment: ProcessInfo.processInfo.environment)
        exit(outcome.rawValue)
    }

    private static func open(
        _ arguments: [String], until deadline: ContinuousClock.Instant,
        environment: [String: String]
    ) -> Outcome {
        guard arguments.count == 1, let kind = KeyringKind(name: arguments[0]) else {
            return report(.misused, "usage: latchkey-keyring gnome | kwallet")
        }
        do throws(CommonError) {
            let place = try UserPlace(environment: environment)
            guard let secret = secret(kind.secretLength, until: deadline) else {
                return report(
                    .misused, "standard input must have exactly \(kind.secretLength) bytes")
            }
            switch kind {
            case .gnome:
                let answer = try GnomeKeyring(place).unlock(
                    KeyringText.hexadecimal(secret), until: deadline)
                return answer == .done
                    ? .opened : report(.denied, "the login keyring has another secret")
            case .withoutKeyring:
                return report(.misused, "there is no keyring to open")
            case .kwallet:
                guard let daemon = KWallet.installedDaemon else {
                    return report(.unavailable, "there is no wallet daemon")
                }
                try KWallet(place).handOver(secret, to: daemon, until: deadline)
                return .opened
            }
        } catch {
            let isMisuse = error.code == .invalidInput || error.code == .refused
            return report(isMisuse ? .misused : .unavailable, error.reason)
        }
    }

    /// Reads exactly `count` bytes, and then the end, until the deadline.
    private static func secret(_ count: Int, until deadline: ContinuousClock.Instant)
        -> SecretBytes?
    {
        var length = 0
        // One byte more, to notice longer input.
        let input = SecretBytes(count: count + 1) { buffer in
            while length < buffer.count,
                (try? Poll.wait(for: STDIN_FILENO, POLLIN, until: deadline)) == true
            {
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[length...])
                let received = read(STDIN_FILENO, rest.baseAddress, rest.count)
                if received < 0, errno == EINTR { continue }
                guard received > 0 else { return }
                length += received
            }
        }
        guard length == count else { return nil }
        return input.withUnsafeBytes { bytes in
            SecretBytes(count: count) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            }
        }
    }

    /// Writes one line to standard error.
    private static func report(_ outcome: Outcome, _ reason: String) -> Outcome {
        let line = Array("latchkey-keyring: \(reason).\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
        return outcome
    }
}
