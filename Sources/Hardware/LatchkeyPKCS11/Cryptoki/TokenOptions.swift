/// How a module and its tokens are used.
public struct TokenOptions: Hashable, Sendable {
    /// Whether a module runs in a separate process, which can be killed if it hangs.
    public enum Isolation: Hashable, Sendable {
        /// As the module's family and version require: OpenSC before 0.24 is isolated.
        case automatic
        /// In this process.
        case never
        /// In a separate process.
        case always
    }

    /// The maximum time for a call, by its kind.
    package struct Deadlines: Hashable, Sendable {
        /// A call that only moves data, or a read of a smart card's state through PC/SC.
        package var data: Duration
        /// A call in which the token may wait for the user: use and generation of a key, login with
        /// the token's own PIN pad.
        package var person: Duration
        /// Loading a module and `C_Initialize`.
        package var load: Duration
        /// The time after which a signature that fails for lack of a login means that the user did
        /// not touch the token.
        package var touch: Duration

        package init(
            data: Duration = .seconds(5), person: Duration = .seconds(60),
            load: Duration = .seconds(10),
            touch: Duration = .seconds(5)
        ) {
            self.data = data
            self.person = person
            self.load = load
            self.touch = touch
        }

        /// A call that only checks a PIN.
        var proof: Duration { min(data * 2, person) }

        /// How long a call waits while another thread restarts the module: `C_Finalize`,
        /// `C_Initialize`, and a second `C_Initialize` for a module that can't lock. Each call
        /// computes it. It is a sum because a product takes a microsecond.
        var restart: Duration { load + load + load + data }
    }

    package var isolation: Isolation
    package var environment: [String: String]
    package var deadlines: Deadlines
    /// The time for the system to notice that a token was removed or inserted, before the next
    /// search.
    package var settlingTime: Duration

    /// Creates options.
    ///
    /// - Parameters:
    ///   - isolation: Whether the module runs in a separate process.
    ///   - environment: Variables of the separate process in addition to those of this process, for
    ///     example `SOFTHSM2_CONF`.
    public init(isolation: Isolation = .automatic, environment: [String: String] = [:]) {
        self.init(isolation: isolation, environment: environment, deadlines: Deadlines())
    }

    package init(
        isolation: Isolation = .automatic, environment: [String: String] = [:],
        deadlines: Deadlines,
        settlingTime: Duration = .milliseconds(500)
    ) {
        self.isolation = isolation
        self.environment = environment
        self.deadlines = deadlines
        self.settlingTime = settlingTime
    }
}
