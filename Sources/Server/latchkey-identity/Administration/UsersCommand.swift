import ArgumentParser
import Glibc
import LatchkeyRelyingParty

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "Add users, also while servers run.",
        subcommands: [Add.self])

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Add a user. The password is one line of stdin; a terminal does not show it.")

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The user's name.")
        var username: String

        @Flag(help: "Mark the user as anonymous: such a user can't set up biometric login.")
        var anonymous = false

        func run() async throws {
            let password = try Self.password()
            let database = try await store.open()
            let users = UserStore(
                database: database, hasher: PasswordHasher(), clock: database.clock)
            do {
                print(
                    try await users.add(
                        username: username, password: password, isAnonymous: anonymous
                    ).id)
            } catch let error as UserStore.AddError {
                throw ValidationError(error.rawValue)
            }
        }

        private static func password() throws -> String {
            guard isatty(STDIN_FILENO) == 1 else {
                guard let password = readLine() else {
                    throw ValidationError("Give a password on stdin.")
                }
                return password
            }
            let password = try typed("Password: ")
            guard try typed("The same password again: ") == password else {
                throw ValidationError("The passwords are different.")
            }
            return password
        }

        /// Reads a line of the terminal without echo.
        private static func typed(_ prompt: String) throws -> String {
            guard let line = getpass(prompt) else {
                throw ValidationError("The terminal cannot be read.")
            }
            defer { explicit_bzero(line, strlen(line)) }
            return String(cString: line)
        }
    }
}
