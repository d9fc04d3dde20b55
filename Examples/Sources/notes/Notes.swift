import Foundation
import Latchkey
import LatchkeyLogin

/// A notebook at the terminal: a login with a key in the TPM, and notes that require a PIN.
@main
struct Notes {
    static let help = """
        login          log in: in the browser once, with the PIN afterwards
        write <text>   add a note
        read           show the notes; asks for the PIN if they are locked
        lock           forget the notes until the PIN is given again
        logout         log out and forget the key; the notes stay
        quit
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            var notebook = try await Notebook(environment: ProcessInfo.processInfo.environment)
            print(notebook.state)
            while let line = ask() {
                do {
                    guard try await obey(line, in: &notebook) else { return }
                } catch {
                    tell(error)
                }
            }
        } catch {
            tell(error)
            exit(1)
        }
    }

    /// - Returns: Whether to continue.
    private static func obey(_ line: String, in notebook: inout Notebook) async throws -> Bool {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        switch (words.first, words.dropFirst().first) {
        case ("login", nil): print("You are \(try await notebook.logIn()).")
        case ("write", let text?): print("Notes: \(try await notebook.write(text)).")
        case ("read", nil): for note in try await notebook.read() { print("- \(note)") }
        case ("lock", nil):
            notebook.lock()
            print(notebook.state)
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

    private static func ask() -> String? {
        print("notes> ", terminator: "")
        fflush(nil)
        return readLine()
    }

    /// Prints the error and the next step. A user who declines is not an error.
    private static func tell(_ error: any Error) {
        switch error {
        case let error as KeystoreError where error.code == .cancelled: print("Nothing was done.")
        case let error as KeystoreError: print("\(error) \(error.recovery)")
        case let error as LoginError: print("\(error) \(error.recovery)")
        default: print("\(error)")
        }
    }
}
