import ArgumentParser

/// The option of commands that use a stored login.
struct BindServerOption: ParsableArguments {
    @Flag(
        help: "Confirm without a prompt that a login stored by an earlier version belongs to the configured server."
    )
    var bindServer = false
}
