import CFloor
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators

/// Compares `PKCS11Keystore.sign` with `C_SignInit` and `C_Sign` on one SoftHSM2 token, in
/// alternating calls, so that load affects both equally.
struct TokenSigning {
    /// The number of keys on the token.
    let keys: Int
    let rounds: Int

    /// The samples of raw signatures that are verified, and of the keystore, for the curve over the
    /// number of keys.
    struct Result: Sendable {
        let verified: Samples
        let ours: Samples
        let table: Table
    }

    @concurrent func run() async throws -> Result {
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

        var raw = Samples()
        var verified = Samples()
        var ours = Samples()
        var verification = Samples()
        var signature = [UInt8](repeating: 0, count: 64)
        for round in -20..<rounds {
            if round == 0 {
                (raw, verified, ours, verification) = (Samples(), Samples(), Samples(), Samples())
            }
            let digest = MessageDigest(sha256: [UInt8(truncatingIfNeeded: round)])
            try raw.measure { try Self.sign(floor, digest, &signature) }
            try verified.measure {
                try Self.sign(floor, digest, &signature)
                guard floor_verify(floor, digest.bytes, signature) == 1 else {
                    throw Failure(reason: "the floor's signature is wrong")
                }
            }
            let made = try await ours.measure {
                try await keystore.sign(digest, with: key, for: prompt, authorizedBy: nobody)
            }
            let isValid = verification.measure { key.publicKey.isValid(made, for: digest) }
            guard isValid else { throw Failure(reason: "a signature is wrong") }
        }
        let crowd = try await crowdedSignatures(keystore, key, prompt)
        var table = Table(
            "P-256 sign, a call of the keystore each, SoftHSM2, \(keys) keys on the token, \(rounds) rounds"
        )
        table.add("raw C_SignInit + C_Sign (floor)", raw)
        table.add("the same, and verified with libcrypto", verified)
        table.add("PKCS11Keystore.sign, which verifies", ours)
        table.add("the same for \(Self.crowd) tasks at once, time per signature", crowd)
        table.add("(the verification in it, with swift-crypto)", verification)
        return Result(verified: verified, ours: ours, table: table)
    }

    private static let crowd = 8

    /// The time per signature with concurrent tasks: the token's thread never waits, and other
    /// threads verify.
    @concurrent private func crowdedSignatures(
        _ keystore: PKCS11Keystore, _ key: HardwareKey, _ prompt: PromptContext
    ) async throws -> Samples {
        var samples = Samples()
        for _ in 0..<20 {
            let each = max(rounds / 20 / Self.crowd, 1)
            let start = ContinuousClock.now
            try await withThrowingTaskGroup { group in
                for _ in 0..<Self.crowd {
                    group.addTask {
                        for number in 0..<each {
                            _ = try await keystore.sign(
                                MessageDigest(sha256: [UInt8(truncatingIfNeeded: number)]),
                                with: key, for: prompt,
                                authorizedBy: NobodyPresent())
                        }
                    }
                }
                try await group.waitForAll()
            }
            samples.add((ContinuousClock.now - start) / (each * Self.crowd))
        }
        return samples
    }

    private static func sign(
        _ floor: OpaquePointer, _ digest: MessageDigest, _ signature: inout [UInt8]
    ) throws {
        let result = floor_sign(floor, digest.bytes, &signature)
        guard result == 0 else { throw Failure(reason: "the floor failed: \(result)") }
    }
}
