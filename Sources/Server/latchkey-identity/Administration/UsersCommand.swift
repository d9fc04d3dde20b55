import ArgumentParser
import LatchkeyRelyingParty

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "Add users, also while servers run.",
        subcommands: [Add.self])

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Add a user. The password is read from stdin, one line.")

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The user's name.")
        var username: String

        @Flag(help: "Mark the user as anonymous: such a user can't set up biometric login.")
        var anonymous = false

        func run() async throws {
            guard let password = readLine() else {
                throw ValidationError("Give a password on stdin.")
            }
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
    }
}
