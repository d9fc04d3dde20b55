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

        func run() async throws {
            let password = try Self.password()
            let database = try await store.open()
            let users = UserStore(
                database: database, hasher: PasswordHasher(), clock: database.clock)
            do {
                print(try await users.add(username: username, password: password).id)
            } catch let error as UserStore.AddError {
                throw ConfigurationError(sentences: error.rawValue)
            }
        }

        /// Reads a line of stdin, of a terminal without echo.
        private static func password() throws -> String {
            guard isatty(STDIN_FILENO) == 1 else {
                guard let password = readLine() else {
                    throw ConfigurationError(sentences: "Give a password on stdin.")
                }
                return password
            }
            guard let line = getpass("Password: ") else {
                throw ConfigurationError(sentences: "The terminal cannot be read.")
            }
            defer { explicit_bzero(line, strlen(line)) }
            return String(cString: line)
        }
    }
}
