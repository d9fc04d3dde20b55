import CFloor
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators

/// Compares `PKCS11Keystore.sign` with `C_SignInit` and `C_Sign` on SoftHSM2 tokens with an
/// increasing number of keys, in alternating calls, so that load affects both equally.
struct TokenSigning {
    /// The numbers of keys on the token.
    let counts: [Int]
    let rounds: Int

    /// The signatures on a token.
    private struct Result {
        let keys: Int
        /// Raw signatures, verified.
        var raw = Samples()
        var ours = Samples()
    }

    @concurrent func run() async throws -> Findings {
        var results: [Result] = []
        for count in counts { results.append(try await measure(count)) }
        func curve(_ samples: (Result) -> Samples) -> [(Double, Double)] {
            results.map { (Double($0.keys), samples($0).median.microseconds) }
        }
        return Findings(
            rows: [results.first, results.last].compactMap(\.self).map {
                Row(
                    "PKCS#11 signature, \($0.keys) keys ÷ raw C_Sign, verified", $0.ours,
                    over: $0.raw, atMost: 1.8)
            },
            plots: [
                Plot(
                    file: "token-keys", title: "P-256 signature by a SoftHSM2 token",
                    x: "keys on the token", y: "µs",
                    series: [
                        .init(name: "PKCS11Keystore.sign", points: curve(\.ours)),
                        .init(name: "raw C_Sign, verified with libcrypto", points: curve(\.raw)),
                    ])
            ])
    }

    private func measure(_ keys: Int) async throws -> Result {
        let token = try await SoftwareToken(label: "Bench", userPIN: "123456")
        let keystore = try PKCS11Keystore(uri: token.uri)
        let prompt = PromptContext(reason: "measure")
        let nobody = NobodyPresent()
        let key = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: prompt), authorizedBy: nobody)
        guard let floor = floor_open(token.modulePath, token.label, token.userPIN) else {
            throw Failure(reason: "the floor can't be opened")
        }
        let filled = floor_fill(floor, Int32(max(keys - 2, 0)))
        guard filled == 0 else { throw Failure(reason: "the keys cannot be created: \(filled)") }
        var result = Result(keys: keys)
        var signature = [UInt8](repeating: 0, count: 64)
        for round in -20..<rounds {
            if round == 0 { result = Result(keys: keys) }
            let digest = MessageDigest(sha256: [UInt8(truncatingIfNeeded: round)])
            try await result.raw.measure {
                let code = floor_sign(floor, digest.bytes, &signature)
                guard code == 0, floor_verify(floor, digest.bytes, signature) == 1 else {
                    throw Failure(reason: "the floor's signature failed: \(code)")
                }
            }
            let made = try await result.ours.measure {
                try await keystore.sign(digest, with: key, for: prompt, authorizedBy: nobody)
            }
            guard key.publicKey.isValid(made, for: digest) else {
                throw Failure(reason: "a signature is wrong")
            }
        }
        return result
    }
}
