/// Measures signatures in an open session on tokens with an increasing number of keys.
struct TokenCrowding {
    let counts: [Int]
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        var findings = Findings()
        var results: [(count: Int, kept: (raw: Samples, ours: Samples))] = []
        for count in counts {
            let result = try await TokenSigning(keys: count, rounds: rounds).run()
            results.append((count, result.kept))
            if count == counts.first || count == counts.last { findings.tables += result.tables }
        }
        guard let few = results.first, let many = results.last else { return findings }
        let name = "raw C_Sign"
        findings.goals = [
            .ratio(
                "PKCS#11 sign, session kept, \(few.count) keys", few.kept.ours, over: few.kept.raw, named: name,
                atMost: 1.15),
            .ratio(
                "PKCS#11 sign, session kept, \(many.count) keys", many.kept.ours, over: many.kept.raw, named: name,
                atMost: 1.15),
        ]
        func curve(_ samples: ((raw: Samples, ours: Samples)) -> Samples) -> [(Double, Double)] {
            results.map { (Double($0.count), samples($0.kept).median.microseconds) }
        }
        findings.plots = [
            Plot(
                file: "token-keys", title: "P-256 signature by a SoftHSM2 token", x: "keys on the token", y: "µs",
                series: [
                    .init(name: "TokenSigner.sign", points: curve(\.ours)),
                    .init(name: "raw C_SignInit + C_Sign", points: curve(\.raw)),
                ])
        ]
        return findings
    }
}
