import LatchkeyPKCS11

/// A line for each token that p11-kit's modules show, and for each module that shows nothing.
func listTokens() async -> [String] {
    let directory = await TokenDirectory.read()
    return directory.tokens.map { "\($0.uri.label ?? "no label"): \($0.uri)" }
        + directory.failures.map { "\($0.modulePath): \($0.reason)" }
}
