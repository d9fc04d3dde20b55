/// How a module and its tokens are used.
public struct TokenOptions: Hashable, Sendable {
    /// Whether a module runs in a process of its own, which can be killed when it hangs.
    public enum Isolation: Hashable, Sendable {
        /// As the module's profile advises: OpenSC before 0.24 is isolated.
        case automatic
        /// It runs in this process.
        case never
        /// It runs in a process of its own.
        case always
    }

    /// How long a call may take, in all its forms.
    public struct Deadlines: Hashable, Sendable {
        /// A call that only moves data.
        public var data: Duration
        /// A call in which a person may be asked by the token: login, signature, derivation, generation.
        public var person: Duration
        /// Loading a module and `C_Initialize`.
        public var load: Duration
        /// From when on a signature that is refused for want of a login is taken for one that nobody touched.
        public var touch: Duration

        /// Deadlines; by default enough for slow readers and slow people.
        public init(
            data: Duration = .seconds(5), person: Duration = .seconds(60), load: Duration = .seconds(15),
            touch: Duration = .seconds(5)
        ) {
            self.data = data
            self.person = person
            self.load = load
            self.touch = touch
        }

        /// How long a call waits while another thread starts the module again: `C_Finalize`, `C_Initialize`, and
        /// `C_Initialize` once more for a module that can't lock.
        var restart: Duration { load * 3 + data }
    }

    /// Whether the module runs in a process of its own.
    public var isolation: Isolation
    /// What the isolating process has in its environment beside our own variables: `SOFTHSM2_CONF=…`.
    public var environment: [String: String]
    /// How long its calls may take.
    public var deadlines: Deadlines
    /// How long to wait for the system to notice that a token is gone or back, before it is looked for again.
    public var settlingTime: Duration

    /// Options; by default what a module's profile advises.
    public init(
        isolation: Isolation = .automatic, environment: [String: String] = [:], deadlines: Deadlines = Deadlines(),
        settlingTime: Duration = .milliseconds(500)
    ) {
        self.isolation = isolation
        self.environment = environment
        self.deadlines = deadlines
        self.settlingTime = settlingTime
    }
}
