internal import Glibc
package import Latchkey

/// The texts that a program gets when it starts: its arguments, and the variables that it reads.
///
/// Swift replaces bytes that are not UTF-8 by U+FFFD. The program would then use another file, store
/// or name than the one that the user wrote.
package enum ProgramTexts {
    /// The maximum length of a text in bytes. All names, paths (`PATH_MAX`) and addresses are shorter;
    /// the search for the word that the user meant takes long for longer ones.
    private static let longest = 8192

    private static let variables =
        Setting.allCases.map(\.variable) + [
            ProgramSettings.variableOfTools, "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
        ]

    /// Checks the texts of this process. Call it before the arguments are parsed.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package static func check() throws(KeystoreError) {
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            try check(argument, "the argument \(index)", "read the arguments")
        }
        for variable in variables {
            guard let value = getenv(variable) else { continue }
            try check(value, variable, "read the environment")
        }
    }

    private static func check(
        _ text: UnsafePointer<CChar>, _ name: String, _ operation: String
    ) throws(KeystoreError) {
        guard strlen(text) <= longest else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "\(name) is longer than \(longest) bytes",
                recovery: "Shorten it. Long data belong into a file or standard input.")
        }
        guard String(validatingCString: text) == nil else { return }
        throw KeystoreError(
            operation: operation, code: .invalidInput,
            reason: "\(name) (‘\(String(cString: text))’) is not text in UTF-8",
            recovery: "Use a name in UTF-8. For a file with another name, use standard input.")
    }
}
