/// Measures signatures in an open session on tokens with an increasing number of keys.
struct TokenCrowding {
    let counts: [Int]
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        var findings = Findings()
        var results: [(count: Int, result: TokenSigning.Result)] = []
        for count in counts {
            let result = try await TokenSigning(keys: count, rounds: rounds).run()
            results.append((count, result))
            if count == counts.first || count == counts.last {
                findings.tables.append(result.table)
            }
        }
        guard let few = results.first, let many = results.last else { return findings }
        findings.goals = [few, many].map { count, result in
            .ratio(
                "PKCS#11 sign, \(count) keys", result.ours, over: result.verified,
                named: "raw C_Sign, verified with libcrypto", atMost: 1.25)
        }
        func curve(_ samples: (TokenSigning.Result) -> Samples) -> [(Double, Double)] {
            results.map { (Double($0.count), samples($0.result).median.microseconds) }
        }
        findings.plots = [
            Plot(
                file: "token-keys", title: "P-256 signature by a SoftHSM2 token",
                x: "keys on the token", y: "µs",
                series: [
                    .init(name: "PKCS11Keystore.sign", points: curve(\.ours)),
                    .init(name: "raw C_Sign, verified with libcrypto", points: curve(\.verified)),
                ])
        ]
        return findings
    }
}
