package import Latchkey
internal import LatchkeyPKCS11
internal import LatchkeyPresence
internal import LatchkeyTPM
internal import TPM2TCTI

/// A setting of the programs. The members of the configuration files have these names, and so have
/// the options and the variables.
package enum Setting: String, CaseIterable, Sendable {
    case container, store, tcti, token
    case tokenLogin = "token-login"
    case tokenIsolation = "token-isolation"
    case pinSource = "pin-source"
    case allowShortPIN = "allow-short-pin"
    case minimumPolicy = "minimum-policy"
    case endpoint
    case clientID = "client-id"
    case trustedOrigins = "trusted-origins"
    case agentSocket = "agent-socket"

    /// The option; nil if no program has one.
    package var option: String? { self == .minimumPolicy ? nil : "--\(rawValue)" }

    /// The environment variable.
    package var variable: String {
        "LATCHKEY_" + rawValue.uppercased().replacing("-", with: "_")
    }

    /// The permitted values; nil for any text.
    package var choices: [String]? {
        switch self {
        case .tokenLogin: ["auto", "pin", "reader"]
        case .tokenIsolation: ["auto", "always", "never"]
        case .allowShortPIN: ["true", "false"]
        case .minimumPolicy: AccessPolicy.Requirement.allCases.map(\.rawValue)
        default: nil
        }
    }

    /// The default; nil if it depends on the machine or the program, or if there is none.
    package var standard: String? {
        switch self {
        case .container: "default"
        case .tcti: TPMKeystore.defaultTCTI
        case .tokenLogin, .tokenIsolation: "auto"
        case .allowShortPIN: "false"
        case .minimumPolicy: AccessPolicy.Requirement.none.rawValue
        default: nil
        }
    }

    /// Why no program accepts a value, as a clause; nil for a value that is accepted.
    package func flaw(in text: String) -> String? {
        if let choices, !choices.contains(text) {
            let list = choices.dropLast().joined(separator: ", ")
            return "‘\(text)’ is not \(list) or \(choices[choices.count - 1])"
        }
        switch self {
        case .container:
            do throws(KeystoreError) { try RecordContainer.check(name: text) } catch {
                return
                    "\(error.reason), which has 1 to 128 bytes of visible characters in Unicode normalization form C"
            }
        case .tcti:
            if text.isEmpty { return "the TCTI is empty" }
            if TCTIConnection.namesFile(text) { return "‘\(text)’ is not a device" }
        case .token:
            do throws(CryptokiError) { _ = try TokenURI(text) } catch { return error.reason }
        case .pinSource where PINSource(text) == nil:
            // Not the text: it may be a PIN.
            return "the value is not tty, pinentry, fd:N or file:PATH"
        case .agentSocket where text != "none" && !text.hasPrefix("/"):
            return "‘\(text)’ is neither an absolute path nor none"
        default: break
        }
        // A NUL would end a path, and a line end the line of a message or a file.
        guard text.unicodeScalars.allSatisfy(\.isVisible) else {
            return "‘\(text)’ contains a control or invisible character"
        }
        return nil
    }

    /// Why a file cannot set a value that an option can, as a clause; nil for a value that it can
    /// set. Programs read the file in different directories, and no shell replaces `~` or `$HOME`.
    package func fileFlaw(in text: String) -> String? {
        guard let path = path(in: text), !path.hasPrefix("/") else { return nil }
        return "‘\(path)’ is not an absolute path"
    }

    /// The path in a value; nil if it has none.
    private func path(in text: String) -> String? {
        func rest(after prefix: String) -> String? {
            let isFound = text.hasPrefix(prefix) && text != prefix
            return isFound ? String(text.dropFirst(prefix.count)) : nil
        }
        switch self {
        case .store: return text
        case .tcti: return rest(after: "device:") ?? rest(after: "swtpm:path=")
        case .pinSource: return rest(after: "file:")
        case .token:
            // A name without a folder is that of a module in p11-kit's directory.
            let module = (try? TokenURI(text))?.modulePath
            return module?.contains("/") == true ? module : nil
        default: return nil
        }
    }

    /// Whether a file sets it to `true` or `false`, and not to a text.
    var isFlag: Bool { self == .allowShortPIN }

    /// Whether a value permits something that the administrator's fixed value does not. Of most
    /// settings, every other value does.
    func isWeaker(_ text: String, than fixed: String) -> Bool {
        func isEarlier(in order: [String]) -> Bool {
            guard let own = order.firstIndex(of: text), let least = order.firstIndex(of: fixed)
            else { return true }
            return own < least
        }
        switch self {
        case .tokenIsolation: return isEarlier(in: ["never", "auto", "always"])
        case .allowShortPIN: return isEarlier(in: ["true", "false"])
        case .minimumPolicy:
            guard let own = AccessPolicy.Requirement(rawValue: text),
                let least = AccessPolicy.Requirement(rawValue: fixed)
            else { return true }
            return !own.meets(least)
        default: return !isSame(text, fixed)
        }
    }

    /// Whether two values mean the same: an address is the same with a slash at its end.
    func isSame(_ text: String, _ other: String) -> Bool {
        func addresses(_ text: String) -> [Substring] {
            (self == .trustedOrigins ? text.split(separator: ",") : [text[...]])
                .map { $0.hasSuffix("/") ? $0.dropLast() : $0 }
        }
        return switch self {
        case .endpoint, .trustedOrigins: addresses(text) == addresses(other)
        default: text == other
        }
    }

    /// The names of all settings, in a clause about one that does not exist.
    ///
    /// - Parameter name: The unknown name.
    package static func unknown(_ name: String) -> String {
        let names = allCases.map(\.rawValue).sorted()
        let spelling = name.lowercased().replacing("_", with: "-")
        let question =
            Spelling.nearest(to: spelling, among: names).map { " (did you mean ‘\($0)’?)" } ?? ""
        return "‘\(name)’ is not a setting\(question); the settings are "
            + names.joined(separator: ", ")
    }
}

extension AccessPolicy.Requirement {
    /// Whether a policy of this kind accepts no proof that one of the kind `minimum` refuses.
    ///
    /// A PIN does not replace a finger that is required, and a finger does not replace a PIN that is
    /// required. So ``pin`` and ``biometryAny`` both meet ``userPresence``, which accepts either, and
    /// neither meets the other.
    package func meets(_ minimum: Self) -> Bool {
        switch minimum {
        case .none: true
        case .userPresence: self != .none
        case .pin, .biometryCurrentSet: self == minimum
        case .biometryAny: self == .biometryAny || self == .biometryCurrentSet
        }
    }
}
