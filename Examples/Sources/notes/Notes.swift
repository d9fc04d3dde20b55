import Foundation
import Latchkey
import LatchkeyLogin

/// A notebook at the terminal: a login with a key in the TPM, and notes that require a PIN.
@main
struct Notes {
    static let help = """
        login          log in: in the browser once, with the PIN afterwards
        whoami         show the user's name, from the server
        write <text>   add a note
        read           show the notes; asks for the PIN if they are locked
        lock           forget the notes until the PIN is given again
        logout         log out and forget the key; the notes stay
        erase          delete the notes, also if they can't be read
        start over     archive the login and the notes, and continue with an empty store
        quit
        """

    private static let environment = ProcessInfo.processInfo.environment

    static func main() async {
        ProcessMemory.protect()
        do {
            guard var notebook = try await open() else { exit(1) }
            do { print(try notebook.state) } catch { tell(error) }
            while let line = ask("notes> ") {
                do {
                    guard try await obey(line, in: &notebook) else { return }
                } catch {
                    tell(error)
                    if (error as? KeystoreError)?.code == .conflict {
                        try? await notebook.retrieve()
                    }
                }
            }
        } catch {
            tell(error)
            exit(1)
        }
    }

    /// Opens the notebook. If its store can't be opened on this machine, the user can start over.
    private static func open() async throws -> Notebook? {
        do {
            return try await newNotebook()
        } catch let error as KeystoreError
            where [.wrongDevice, .damaged, .invalidated].contains(error.code)
        {
            tell(error)
            return try await startOver()
        }
    }

    /// - Returns: A notebook without a login or notes; nil if the user declines.
    private static func startOver() async throws -> Notebook? {
        guard ask("This archives the login and the notes. Type ‘yes’ to continue: ") == "yes" else {
            return nil
        }
        print("The archive is \(try await Notebook.startOver(environment: environment)).")
        return try await newNotebook()
    }

    /// A notebook that locks when the user's session locks. Prints an error if this machine cannot
    /// do that.
    private static func newNotebook() async throws -> Notebook {
        let notebook = try await Notebook(environment: environment)
        Task {
            do {
                try await notebook.followSession()
            } catch {
                try? FileHandle.standardError.write(
                    contentsOf: Data("\(error.localizedDescription)\n".utf8))
            }
        }
        return notebook
    }

    /// - Returns: Whether to continue.
    private static func obey(_ line: String, in notebook: inout Notebook) async throws -> Bool {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        switch (words.first, words.dropFirst().first) {
        case ("login", nil): print("You are \(try await notebook.logIn()).")
        case ("whoami", nil): print("You are \(try await notebook.whoAmI()).")
        case ("write", let text?): print("Notes: \(try await notebook.write(text)).")
        case ("read", nil): for note in try await notebook.read() { print("- \(note)") }
        case ("lock", nil):
            notebook.lock()
            print(try notebook.state)
        case ("erase", nil):
            guard ask("This deletes all notes. Type ‘yes’ to continue: ") == "yes" else { break }
            try await notebook.erase()
            print(try notebook.state)
        case ("start", "over"):
            guard let empty = try await startOver() else { break }
            notebook = empty
            print(try notebook.state)
        case ("logout", nil):
            try await notebook.logOut()
            print("You are logged out.")
        case ("quit", nil): return false
        case (nil, _): break
        case ("help", nil): print(help)
        default: print("There is no such command.\n\(help)")
        }
        return true
    }

    private static func ask(_ question: String) -> String? {
        print(question, terminator: "")
        fflush(nil)
        return readLine()
    }

    /// Prints an error and the next step: a command of this program if one helps, otherwise the
    /// error's own.
    private static func tell(_ error: any Error) {
        let (code, text, step): (CommonErrorCode, String, String) =
            switch error {
            case let error as KeystoreError: (error.code, "\(error)", error.recovery)
            case let error as LoginError: (error.commonCode, "\(error)", error.recovery)
            default: (.failed, "\(error)", "")
            }
        switch code {
        // A declined prompt is not an error.
        case .cancelled: print("Nothing was done.")
        // The stored data has another type, another program changed it, or the hardware no longer
        // has its key.
        case .damaged, .invalidated:
            print(text, "‘erase’ deletes the notes. ‘start over’ archives the login and the notes.")
        case .wrongDevice: print(text, "Use the machine that created the store, or start over.")
        default: print(text, step)
        }
    }
}
