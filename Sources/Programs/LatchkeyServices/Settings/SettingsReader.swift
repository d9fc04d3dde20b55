internal import FoundationEssentials
package import Latchkey

/// The settings of one run of a program: from its options, the environment (`LATCHKEY_…`), the
/// user's configuration file and the administrator's, in this order of precedence, but never weaker
/// than the administrator's fixed ones.
package struct SettingsReader: Sendable {
    /// The kinds of places that set a setting, in order of precedence.
    package enum Source: Int, Sendable {
        /// The administrator's file, as a fixed setting.
        case fixed
        case option, variable, user
        /// The administrator's file, as a default.
        case administrator

        var isFile: Bool {
            switch self {
            case .option, .variable: false
            case .fixed, .user, .administrator: true
            }
        }
    }

    /// The path of the user's file, which may not exist; nil without a home directory.
    package let path: String?
    /// The administrator's file; nil if it does not exist.
    package let administrators: SettingsFile?
    private var values: [Setting: (source: Source, text: String)] = [:]
    /// Whether the user's values are new ones, which the file does not have yet.
    private let isChange: Bool

    /// A user's value that is weaker than the fixed one.
    private struct Contradiction {
        let setting: Setting
        let source: Source
        let text: String
        let fixed: String
    }

    /// - Parameters:
    ///   - users: New settings for the user's file; nil to read it.
    ///   - administrators: The path of the administrator's file. Only tests use another one.
    ///   - flaw: Why the program does not accept a value of a setting, as a clause; nil for a value
    ///     that is accepted.
    /// - Throws: ``KeystoreError`` with code `invalidInput`: as ``SettingsFile``; for a value that a
    ///   setting cannot have; for one that is weaker than a fixed one.
    package init(
        options: [Setting: String?], environment: [String: String],
        users: [Setting: String]? = nil,
        administrators: String = SettingsFile.administrators,
        flaw: (Setting, String) -> String? = { $0.flaw(in: $1) }
    ) throws(KeystoreError) {
        path = Self.path(environment: environment)
        isChange = users != nil
        let file = try SettingsFile(administrators: administrators)
        self.administrators = file
        var variables: [Setting: String] = [:]
        for setting in Setting.allCases {
            // An empty variable counts as unset.
            guard let text = environment[setting.variable], !text.isEmpty else { continue }
            variables[setting] = text
        }
        var users = users
        if users == nil, let path { users = try SettingsFile(users: path).values }
        let sources: [(Source, [Setting: String])] = [
            (.option, options.compactMapValues(\.self)), (.variable, variables),
            (.user, users ?? [:]), (.administrator, file?.values ?? [:]),
        ]
        var contradictions: [Contradiction] = []
        for setting in Setting.allCases {
            let fixed = file?.fixed[setting]
            var found = sources.compactMap { source, values in
                values[setting].map { (source: source, text: $0) }
            }
            if let fixed { found.append((.fixed, fixed)) }
            for (source, text) in found {
                values[setting] = (source, text)
                // A fixed empty text means that there is no token.
                let isNoToken = setting == .token && source == .fixed && text.isEmpty
                let objection =
                    flaw(setting, text) ?? (source.isFile ? setting.fileFlaw(in: text) : nil)
                if !isNoToken, let objection { throw invalid(setting, objection) }
                if let fixed, setting.isWeaker(text, than: fixed) {
                    contradictions.append(
                        Contradiction(setting: setting, source: source, text: text, fixed: fixed))
                }
            }
            values[setting] = found.first
            if let fixed, let text = found.first?.text, setting.isSame(text, fixed) {
                values[setting] = found.last
            }
        }
        guard contradictions.isEmpty else { throw error(contradictions) }
    }

    /// The value; nil if nothing sets it.
    package subscript(setting: Setting) -> String? { values[setting]?.text }

    /// The kind of place that sets a setting; nil if nothing sets it.
    package func source(of setting: Setting) -> Source? { values[setting]?.source }

    /// Whether the source of one setting is the source of the other, or has precedence over it.
    func isAsSpecific(_ setting: Setting, as other: Setting) -> Bool {
        guard let own = source(of: setting) else { return false }
        return source(of: other).map { own.rawValue <= $0.rawValue } ?? true
    }

    /// The place that sets a setting: an option, a variable or a file.
    package func place(of setting: Setting) -> String? {
        place(of: setting, source(of: setting))
    }

    private func place(of setting: Setting, _ source: Source?) -> String? {
        switch source {
        case .option: setting.option
        case .variable: setting.variable
        case .user: path
        case .fixed, .administrator: administrators?.path
        case nil: nil
        }
    }

    /// The path of the user's configuration file; nil without a home directory.
    package static func path(environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return directory + "/latchkey/config.json"
        }
        return environment["HOME"].map { $0 + "/.config/latchkey/config.json" }
    }

    // MARK: Errors

    /// The error for users' values that are weaker than the fixed ones. It names all of them, so that
    /// one correction is enough.
    private func error(_ contradictions: [Contradiction]) -> KeystoreError {
        let reasons = contradictions.map {
            "\($0.setting.rawValue): \(administrators?.path ?? "") fixes ‘\($0.fixed)’, and "
                + (isChange
                    ? "the new value is ‘\($0.text)’"
                    : "\(place(of: $0.setting, $0.source) ?? "") sets ‘\($0.text)’")
        }
        let steps = contradictions.map {
            switch $0.source {
            case .option: "omit \($0.setting.option ?? "")"
            case .variable: "run ‘unset \($0.setting.variable)’"
            case .user, .fixed, .administrator:
                "run ‘latchkey config unset \($0.setting.rawValue)’"
            }
        }
        return KeystoreError(
            operation: isChange ? "change the settings" : "read the settings",
            code: .invalidInput, reason: reasons.joined(separator: "; "),
            recovery: isChange
                ? "Choose a value that the administrator of this machine permits. Nothing was changed."
                : "Remove what contradicts the administrator of this machine: \(steps.joined(separator: ", "))."
        )
    }

    /// An error for a value that a setting cannot have.
    package func invalid(_ setting: Setting, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read the settings", code: .invalidInput,
            reason: "\(setting.rawValue): \(reason)",
            recovery: advice(toCorrect: setting))
    }

    /// The next step for a wrong setting: the place that contains it.
    private func advice(toCorrect setting: Setting) -> Recovery {
        let place = place(of: setting) ?? ""
        return switch source(of: setting) {
        case .option, .variable, nil: "Correct \(place)."
        case .user, .fixed, .administrator:
            SettingsFile.advice(toCorrect: "‘\(setting.rawValue)’", in: place)
        }
    }
}
