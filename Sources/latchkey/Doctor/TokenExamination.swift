import FoundationEssentials
import Latchkey
import LatchkeyPKCS11

/// Looks at the token that was named, from the module up. Asks nobody, and shows the token no PIN.
struct TokenExamination {
    let uri: TokenURI
    let options: PKCS11Options
    let readers: ReaderExamination

    func checks() async -> [Check] {
        let directory = await TokenDirectory.read(uri, isMatching: false, options: options.token)
        let fitting = directory.tokens.filter { uri.matches($0.information) }.preferringInitialized
        guard let entry = fitting.first else { return [absent(directory)] }
        guard fitting.count == 1 else { return [ambiguous(fitting)] }
        let checks = [module(entry), token(entry)]
        return entry.information.flags.contains(.initialized)
            ? checks + [pin(entry), revocation] + limits(entry) : checks
    }

    private func absent(_ directory: TokenDirectory) -> Check {
        let name = "token"
        if uri.modulePath != nil, let failure = directory.failures.first {
            return .problem("module", failure.keystoreError)
        }
        // Where the module shows tokens, it is not for want of a reader.
        if directory.tokens.isEmpty, let hint = readers.problem() { return hint }
        let others = directory.tokens.map { "‘\($0.information.label)’" }
        let seen = others.isEmpty ? "no token at all" : "only \(others.joined(separator: ", "))"
        let broken = directory.failures.map { " \($0.keystoreError)" }.joined()
        return .problem(
            name, "No token is \(uri); there is \(seen).\(broken)",
            "Plug it in, compare with ‘latchkey token list’, and name its module with module-path. \(readers.hint())",
            .unavailable)
    }

    private func ambiguous(_ entries: [TokenDirectory.Entry]) -> Check {
        let names = entries.map { "‘\($0.information.label)’ (serial number \($0.information.serial))" }
        return .problem(
            "token", "Several tokens fit: \(names.joined(separator: ", ")).",
            "Add serial=… to the URI; ‘latchkey token list’ has a whole one for each.", .conflict)
    }

    private func module(_ entry: TokenDirectory.Entry) -> Check {
        let module = entry.module
        return .ok("module", "\(entry.modulePath) is \(module.manufacturer) \(module.description) \(module.version).")
    }

    private func token(_ entry: TokenDirectory.Entry) -> Check {
        let information = entry.information
        let serial = information.serial.isEmpty ? "" : " with the serial number \(information.serial)"
        let device = "\(information.manufacturer) \(information.model)\(serial)"
        guard information.flags.contains(.initialized) else {
            return .problem(
                "token", "\(device) is not initialised.",
                "Run ‘latchkey token init --label NAME’, which asks for its PINs.", .unavailable)
        }
        let kind = entry.simulator.map { "a simulator (\($0)): it protects keys from nobody" } ?? "hardware"
        return .ok("token", "‘\(information.label)’, \(device), answers; it is \(kind).")
    }

    private func pin(_ entry: TokenDirectory.Entry) -> Check {
        let flags = entry.information.flags
        let name = "token-pin"
        if flags.contains(.userPINLocked) {
            return .problem(
                name, "Its PIN is locked: too many were wrong.", "Run ‘latchkey token pin --unblock’.", .lockedOut)
        }
        if !flags.contains(.userPINInitialized) {
            return .problem(
                name, "Its user has no PIN yet.", "Run ‘latchkey token pin --init’ as its security officer.",
                .passcodeNotSet)
        }
        if flags.contains(.userPINFinalTry) {
            return .warning(name, "One more wrong PIN locks it.", "Be sure of the PIN before you type it.")
        }
        if flags.contains(.userPINCountLow) {
            return .warning(
                name, "Wrong PINs were tried; few are left before it locks.", "Take care with the next one.")
        }
        let reader = flags.contains(.protectedAuthenticationPath) ? " It is asked for at the token's own reader." : ""
        return .ok(name, "It takes PINs.\(reader)")
    }

    private var revocation: Check {
        .ok(
            "revocation",
            "A token takes nothing back from copies of the store: delete keys on it, and keep no copies of what the locker"
                + " seals.")
    }

    /// What this combination of token and module is known not to do.
    private func limits(_ entry: TokenDirectory.Entry) -> [Check] {
        let name = "token-limits"
        let version = entry.module.version
        switch ModuleProfile(for: entry.module).family {
        case .ykcs11 where version < Self.firstWithAES && entry.information.firmwareVersion >= Self.firstShippedWithAES:
            return [
                .warning(
                    name, "The YubiKey's management key is AES as it ships, and ykcs11 \(version) knows only 3DES.",
                    "Make keys with ‘ykman piv keys generate’ and name their slots, or change the management key to TDES."
                )
            ]
        case .ykcs11 where version < Self.firstWithAES:
            return [
                .warning(
                    name, "ykcs11 \(version) can't choose touch and PIN policies.",
                    "Make keys that need a touch with ‘ykman piv keys generate --touch-policy always’.")
            ]
        case .opensc where entry.information.manufacturer == "piv_II" && !uri.namesKey:
            return [
                .problem(
                    name, "OpenSC makes no keys on a PIV card; it takes over those that have a certificate.",
                    "Use the card's own module (YubiKey: ykcs11), or name a key with id= in the URI, %01 for slot 9a.",
                    .unsupported)
            ]
        case .opensc where version < Self.firstThatSurvivesRemoval && options.token.isolation == .never:
            return [
                .warning(
                    name, "OpenSC \(version) can hang for ever when the card is pulled, and it is not isolated.",
                    "Leave out --token-isolation never.")
            ]
        default: return []
        }
    }

    /// 2.3.0 and the firmware 5.7.0, as their `CK_VERSION` writes them.
    private static let firstWithAES = ModuleInformation.Version(major: 2, minor: 30)
    private static let firstShippedWithAES = ModuleInformation.Version(major: 5, minor: 70)
    private static let firstThatSurvivesRemoval = ModuleInformation.Version(major: 0, minor: 24)
}
