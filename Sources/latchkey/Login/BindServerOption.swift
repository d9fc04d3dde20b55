import ArgumentParser

/// The option of commands that use a stored login.
struct BindServerOption: ParsableArguments {
    @Flag(
        help: "Bind a login that an earlier version stored without its server to the configured server, without asking."
    )
    var bindServer = false
}
