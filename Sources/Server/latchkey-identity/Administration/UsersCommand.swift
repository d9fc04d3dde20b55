import ArgumentParser
import LatchkeyRelyingParty

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "Administer users, also while the server runs.",
        subcommands: [Add.self, List.self, Disable.self, Enable.self])

    struct UserOptions: ParsableArguments {
        @OptionGroup var store: DatabaseOption

        @Argument(help: "The user's name.")
        var username: String

        func users(_ tables: IdentityDatabase.Tables = .required) async throws -> UserStore {
            let database = try await store.open(tables)
            return UserStore(database: database, hasher: PasswordHasher(), clock: database.clock)
        }

        func setDisabled(_ isDisabled: Bool) async throws {
            guard try await users().setDisabled(isDisabled, username: username) else {
                throw NotFound("user", username)
            }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Add a user. The password is read from stdin, one line.")

        @OptionGroup var options: UserOptions

        @Flag(help: "Mark the user as anonymous: such a user can't set up biometric login.")
        var anonymous = false

        func run() async throws {
            guard let password = readLine() else {
                throw ValidationError("Give a password on stdin.")
            }
            do {
                let user = try await options.users(.migrated).add(
                    username: options.username, password: password, isAnonymous: anonymous)
                print(user.id)
            } catch let error as UserStore.AddError {
                throw ValidationError(error.rawValue)
            }
        }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "disable", abstract: "Disable a user and end all their sessions.")

        @OptionGroup var options: UserOptions

        func run() async throws { try await options.setDisabled(true) }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "enable", abstract: "Enable a disabled user.")

        @OptionGroup var options: UserOptions

        func run() async throws { try await options.setDisabled(false) }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the users, one line of JSON each, in the order of their names.")

        @OptionGroup var store: DatabaseOption

        func run() async throws { try printLines(await store.administration().users()) }
    }
}
