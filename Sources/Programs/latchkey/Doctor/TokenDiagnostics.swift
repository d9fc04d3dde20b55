import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyPlatform
import LatchkeyServices

/// Checks the configured token and its module. Does not prompt, and does not send a PIN to the
/// token.
struct TokenDiagnostics {
    let uri: TokenURI
    let options: PKCS11Options
    let readers: ReaderDiagnostics

    func checks() async -> [Check] {
        let directory = await TokenDirectory.read(uri, isMatching: false, options: options.token)
        let fitting = directory.tokens.filter { uri.matches($0.information) }.preferringInitialized
        guard let entry = fitting.first else { return [absent(directory)] }
        guard fitting.count == 1 else { return [ambiguous(fitting)] }
        guard entry.information.flags.contains(.initialized) else {
            return [module(entry), await creation(as: "token")]
        }
        return [module(entry), token(entry), await pin(entry), await creation(), revocation]
            + limits(entry)
    }

    /// Makes the checks of `key create` before its prompts, and creates a key that the token does
    /// not store.
    private func creation(as name: String = "token-key") async -> Check {
        do throws(KeystoreError) {
            let check = try await PKCS11Keystore(uri: uri, options: options).checkCreation()
            if let failure = check.sealingFailure {
                return .warning(
                    name, "The token can have keys, but cannot seal secrets. \(failure)",
                    advice: failure.advice)
            }
            guard let slot = check.slot else { return creation(check, name) }
            guard check.isKnown else {
                return .warning(
                    name,
                    "The slots that every PIV card has are in use, and this card may not have the slot \(slot).",
                    advice:
                        "Try ‘latchkey key create’, or add the id= of an existing key to the URI: %01 is slot 9a."
                )
            }
            return .ok(
                name,
                "The next key is created in the slot \(slot). This was not tried: it requires the management key."
            )
        } catch {
            return .problem(name, error)
        }
    }

    private func creation(_ check: CreationCheck, _ name: String) -> Check {
        guard check.isKnown else {
            return .warning(
                name, "The token does not show the named key without a login.",
                advice: "Try ‘latchkey key create’, which prompts for the PIN.")
        }
        switch check.rehearsal {
        case .passed:
            return .ok(
                name,
                "The token created P-256 keys, used them and deleted them, without a login. The PIN was not tried."
            )
        case .notTried(let reason):
            return .ok(
                name,
                (uri.namesKey ? "The named key can be adopted" : "The token can create P-256 keys")
                    + ", as its module reports. This was not tried: \(reason).")
        case .refused(let answer):
            return .warning(
                name, "The token did not create a key for one session: \(answer).",
                advice: "Try ‘latchkey key create’, which stores the key.")
        }
    }

    private func absent(_ directory: TokenDirectory) -> Check {
        let name = "token"
        if uri.modulePath != nil, let failure = directory.failures.first {
            return .problem("module", failure.keystoreError)
        }
        // If the module lists tokens, the reader works.
        if directory.tokens.isEmpty, let hint = readers.problem() { return hint }
        let others = directory.tokens.map { "‘\($0.information.label)’" }
        let seen = others.isEmpty ? "no token at all" : "only \(others.joined(separator: ", "))"
        let broken = directory.failures.map { " \($0.keystoreError)" }.joined()
        return .problem(
            name, "No token matches \(uri); there is \(seen).\(broken)",
            advice:
                "Connect the token, compare the URI with ‘latchkey token list’, and add its module with module-path. \(readers.hint())",
            code: .unavailable)
    }

    private func ambiguous(_ entries: [TokenDirectory.Entry]) -> Check {
        let names = entries.map {
            "‘\($0.information.label)’ (serial number \($0.information.serial))"
        }
        return .problem(
            "token", "Several tokens match: \(names.joined(separator: ", ")).",
            advice: "Use the URI of one of them; ‘latchkey token list’ shows the complete URIs.",
            code: .conflict)
    }

    private func module(_ entry: TokenDirectory.Entry) -> Check {
        let module = entry.module
        return .ok(
            "module",
            "\(entry.modulePath) is \(module.manufacturer) \(module.description) \(entry.moduleVersion)."
        )
    }

    private func token(_ entry: TokenDirectory.Entry) -> Check {
        let information = entry.information
        let serial =
            information.serial.isEmpty ? "" : " with the serial number \(information.serial)"
        let device = "\(information.manufacturer) \(information.model)\(serial)"
        let kind =
            entry.simulator.map { "a simulator (\($0)), which does not protect keys" } ?? "hardware"
        return .ok("token", "‘\(information.label)’, \(device), answers; it is \(kind).")
    }

    private func pin(_ entry: TokenDirectory.Entry) async -> Check {
        let flags = entry.information.flags
        let name = "token-pin"
        let profile = ModuleProfile(for: entry.module)
        if flags.contains(.userPINLocked) {
            return .problem(name, await PKCS11Keystore(uri: uri, options: options).lockedPINError())
        }
        if !flags.contains(.userPINInitialized) {
            return .problem(name, KeystoreError.noUserPIN(profile).during("use the token's PIN"))
        }
        if flags.contains(.userPINFinalTry) {
            return .warning(
                name, "One more wrong PIN locks the token.",
                advice: "Make sure that the PIN is correct before you enter it.")
        }
        if flags.contains(.userPINCountLow) {
            return .warning(
                name, "Few attempts are left before the token locks.",
                advice: "Make sure that the PIN is correct before you enter it.")
        }
        if flags.contains(.userPINToBeChanged) {
            return .warning(
                name, "The token's PIN is the default one, or it has expired.",
                advice: "Change it with ‘latchkey token pin’.")
        }
        let reader =
            flags.contains(.protectedAuthenticationPath)
            ? " You enter it at the token's reader." : ""
        return .ok(name, "The token accepts the PIN.\(reader)")
    }

    private var revocation: Check {
        .ok(
            "revocation",
            "A token cannot revoke keys in copies of the store: delete keys on the token, and keep no copies of the"
                + " locker's data.")
    }

    /// The known limits of this combination of token and module.
    private func limits(_ entry: TokenDirectory.Entry) -> [Check] {
        let name = "token-limits"
        let version = entry.module.version
        switch ModuleProfile(for: entry.module).family {
        case .ykcs11 where version < Self.firstWithPolicies:
            return [
                .warning(
                    name, "ykcs11 \(entry.moduleVersion) cannot set touch and PIN policies.",
                    advice:
                        "Create keys that require a touch with ‘ykman piv keys generate --touch-policy always’."
                )
            ]
        case .opensc
        where version < Self.firstThatSurvivesRemoval && options.token.isolation == .never:
            return [
                .warning(
                    name,
                    "OpenSC \(version) can hang when the card is removed, and it does not run in its own process.",
                    advice: "Remove --token-isolation never.")
            ]
        default: return []
        }
    }

    /// ykcs11 2.3.0, in the format of `CK_VERSION`.
    private static let firstWithPolicies = ModuleInformation.Version(major: 2, minor: 30)
    private static let firstThatSurvivesRemoval = ModuleInformation.Version(major: 0, minor: 24)
}

/// Checks the smart card service pcscd, and programs that can block a card.
struct ReaderDiagnostics {
    /// pcscd's socket, fixed at its build.
    static let socket = "/run/pcscd/pcscd.comm"

    /// The problem that hides all cards, if any.
    func problem() -> Check? {
        guard isInstalled, !isRunning else { return nil }
        return .problem(
            "readers",
            "The smart card service pcscd is not running, so no reader or YubiKey is available.",
            advice: "Start it: sudo systemctl enable --now pcscd.socket", code: .unavailable)
    }

    /// Another possible cause of a missing card.
    func hint() -> String {
        if isScdaemonRunning {
            return
                "GnuPG's scdaemon may use the card: run ‘gpgconf --kill scdaemon’ and try again. To share the card with it, set both"
                + " disable-ccid and pcsc-shared in scdaemon.conf."
        }
        guard isRunning else { return "" }
        return
            "If a connected reader is missing, polkit may deny access: pcscd serves only users at the console, unless"
            + " a rule for org.debian.pcsc-lite.access_pcsc allows more."
    }

    var isInstalled: Bool {
        ["/usr/sbin/pcscd", "/usr/bin/pcscd", "/usr/local/sbin/pcscd"].contains {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Whether a process accepts connections at the socket: pcscd, or systemd, which starts it.
    var isRunning: Bool { UNIXSocketAddress(path: Self.socket)?.isServed == true }

    /// Whether any user's GnuPG smart card daemon is running, which can block cards.
    private var isScdaemonRunning: Bool {
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return processes.contains { process in
            guard process.allSatisfy(\.isNumber) else { return false }
            return (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8))
                == "scdaemon\n"
        }
    }
}
