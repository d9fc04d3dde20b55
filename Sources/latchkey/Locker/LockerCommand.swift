import ArgumentParser

/// `latchkey locker`.
struct LockerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "locker",
        abstract: "Enrol this machine with a server, and encrypt data for a session.",
        discussion: """
            A session lives as long as a command: each starts the one that it needs and ends it. Between commands this \
            machine is enrolled or not, and data of all levels but ‘base’ is closed. Starting asks for your PIN or \
            finger, or shows the server's login page where there is no easy access; ‘background’ asks nobody. \
            The last wrong PIN that the hardware takes ends easy access: start by a login, then enable it again.
            """,
        subcommands: [
            LockerStatusCommand.self, LockerStartCommand.self, LockerBackgroundCommand.self, LockerEndCommand.self,
            LockerEasyAccessCommand.self, LockerEncryptCommand.self, LockerDecryptCommand.self,
        ])
}
