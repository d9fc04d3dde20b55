internal import Subprocess

extension Environment {
    /// This process's environment with some variables set anew.
    static func inherited(with variables: [String: String]) -> Environment {
        .inherit.updating(variables.reduce(into: [:]) { $0[Environment.Key(stringLiteral: $1.key)] = $1.value })
    }
}
