import Dispatch
import Latchkey
import LatchkeyRelyingParty

/// Hashes and checks passwords one after another on a thread of its own, so that neither the event loops nor the
/// cooperative pool wait, and one hash's memory is the most that is in use.
final class PasswordHasher: Sendable {
    private let queue = DispatchQueue(label: "org.latchkey.identity.passwords")
    private let cost: PasswordHash.Cost
    private let random: RandomSource
    /// What an unknown user's password is compared with, so that the answer takes as long.
    private let decoy: PasswordHash

    init(cost: PasswordHash.Cost = .standard, random: RandomSource = .system) {
        self.cost = cost
        self.random = random
        decoy = PasswordHash(decoyOf: cost, random: random)
    }

    /// The text to store for a new password.
    func hash(_ password: String) async throws -> String {
        let salt = random.bytes(PasswordHash.saltLength)
        return try await run { [cost] in try PasswordHash(password, salt: salt, cost: cost).description }
    }

    /// Whether `password` is the one that was stored. Without a user, false after the same time.
    func matches(_ password: String, stored: String?) async throws -> Bool {
        let known = stored.flatMap(PasswordHash.init)
        return try await run { [decoy] in
            let matches = try (known ?? decoy).matches(password)
            return matches && known != nil
        }
    }

    private func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result(catching: work)) }
        }
    }
}
