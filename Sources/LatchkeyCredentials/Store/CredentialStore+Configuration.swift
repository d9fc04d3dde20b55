public import FoundationEssentials

extension CredentialStore {
    /// What an app chooses for its credentials.
    public struct Configuration: Sendable {
        /// Which claims of an ID token are kept in the clear, so that credentials can be found by them.
        public enum ClaimSelection: Hashable, Sendable {
            /// All of them: names and addresses too.
            case all
            /// These only.
            case only(Set<String>)

            func contains(_ claim: String) -> Bool {
                switch self {
                case .all: true
                case .only(let claims): claims.contains(claim)
                }
            }
        }

        /// Which claims are kept in the clear.
        public var claims = ClaimSelection.all
        /// How clients prove who they are, by client id. Those that are not named are public.
        public var clients: [String: ClientAuthentication] = [:]
        /// A token that ends within so many seconds is refreshed before it is used.
        public var refreshGraceInterval: TimeInterval = Credential.refreshGraceInterval
        /// This machine's clock.
        public var now: @Sendable () -> Date = { Date() }
        /// How automatic refreshing waits; throws when the task is cancelled.
        public var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }

        public init() {}
    }
}
