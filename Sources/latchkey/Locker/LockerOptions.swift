import ArgumentParser
import Latchkey

/// What commands share that may start a session.
struct LockerOptions: ParsableArguments {
    @Flag(help: "Let your PIN or finger do while there is no network; opens data of ‘offline’ and ‘base’ only.")
    var allowOffline = false

    @Flag(help: "Enrol with a server that keeps no shares of keys; then no cryptography ties data to sessions.")
    var withoutShares = false

    @Option(help: "What the hardware asks for in easy access, when it is set up.")
    var policy = LoginPolicyArgument(.pin)
}
