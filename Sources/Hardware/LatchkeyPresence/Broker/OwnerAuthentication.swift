internal import FoundationEssentials
internal import Glibc
public import Latchkey
internal import TPM2

/// Asks whether the person at the machine is the user, with a finger: what
/// `LAContext.evaluatePolicy(_:localizedReason:)` does on iOS.
///
/// The presence broker verifies a finger of the user who runs this process, and signs that it did so
/// for this request: for its random nonce, its reason and its connection. The call verifies the
/// signature before it returns.
///
/// - Important: The result is a yes in your process. Whoever can change the process, or the code
///   that calls this, does not need it. A key or a secret is stronger: the hardware then signs with
///   the key or opens the secret after the finger or PIN, and without that there is nothing to
///   continue with. Use a key of the policy `AccessPolicy.userPresence`, or a `BiometricsVault`,
///   for everything that has one. The signature shows that the answer is for this request; that it
///   is the broker's, the system bus states.
///
/// There is no PIN: the broker never gets one. For a PIN, use a key.
///
/// ```swift
/// try await OwnerAuthentication().evaluate(reason: "show the recovery codes")
/// ```
public struct OwnerAuthentication: Sendable {
    private let broker: SystemPresenceBroker

    /// - Parameter broker: The broker, which reports the progress of the prompt.
    public init(broker: SystemPresenceBroker = SystemPresenceBroker()) { self.broker = broker }

    /// Verifies a finger. Returns after a match only. Supports task cancellation.
    ///
    /// - Parameter reason: Why, as the end of a sentence. The broker shows it together with the
    ///   process that asks.
    /// - Throws: `KeystoreError`: `wrongProof` for another finger, `lockedOut` after too many of
    ///   them, `cancelled` if the task is cancelled or no finger was placed in time, `notEnrolled`
    ///   without an enrolled finger, `unavailable` without the broker or a reader, `refused` for an
    ///   answer whose signature is wrong.
    public func evaluate(reason: String) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await broker.evaluate(PresenceWire.shortened(reason))
        } catch { throw error.during("verify the user") }
    }
}

extension SystemPresenceBroker {
    fileprivate func evaluate(_ reason: String) async throws(KeystoreError) {
        // Its policy needs no finger: the broker states below whether one is enrolled.
        let key = try await terms(for: .pin).approvalKey
        let nonce = SecretBytes.random(count: OwnerStatement.nonceBytes)
            .withUnsafeBytes { Data($0) }
        do throws(BusError) {
            let bus = try await prompter()
            let statement = OwnerStatement(
                user: geteuid(), caller: try await bus.uniqueName, reason: reason, nonce: nonce)
            let answer = try await prompting(
                on: bus, .evaluate, PresenceWire.arguments(statement)
            ).get()
            guard let key, let signature = PresenceWire.signature(answer),
                let digest = statement.digest, key.isValid(signature, for: digest)
            else { throw PresenceWire.invalidAnswer }
        } catch {
            if Task.isCancelled { throw .cancelled("the request was cancelled") }
            switch PresenceWire.answer(error) {
            case .notRecognised?: throw .otherFinger()
            case .declined(let why)?: throw .cancelled(why)
            case .approved?, nil: throw await withEnd(PresenceWire.keystoreError(error))
            }
        }
        // A finger for a request that the app has withdrawn.
        if Task.isCancelled { throw .cancelled("the request was cancelled") }
    }
}

extension PresenceTerms {
    /// The key of the broker's signatures; nil if it is no P-256 key.
    fileprivate var approvalKey: PublicKey? {
        (try? PublicArea(unmarshalling: authority))?.p256Point?.p256Representation
            .flatMap { try? PublicKey(x963Representation: $0) }
    }
}

extension OwnerStatement {
    /// What the broker signs.
    package var digest: MessageDigest? {
        MessageDigest(
            bytes: Approval(nonceTPM: Array(nonce), policyRef: reference).digest)
    }
}

extension PresenceWire {
    /// The arguments of `Evaluate`: `nonce, reason`. The broker gets the rest from the bus.
    static func arguments(_ statement: OwnerStatement) -> [BusValue] {
        [.bytes(Array(statement.nonce)), .string(statement.reason)]
    }

    package static func ownerRequest(
        _ arguments: [BusValue], of user: UInt32, _ caller: String
    ) -> OwnerStatement? {
        guard arguments.count == 2, let nonce = arguments[0].bytes,
            let reason = arguments[1].string
        else { return nil }
        return OwnerStatement(user: user, caller: caller, reason: reason, nonce: Data(nonce))
    }

    package static func arguments(_ signature: ECDSASignature) -> [BusValue] {
        [.bytes(Array(signature.rawRepresentation))]
    }

    fileprivate static func signature(_ arguments: [BusValue]) -> ECDSASignature? {
        guard arguments.count == 1, let raw = arguments[0].bytes else { return nil }
        return ECDSASignature(rawRepresentation: raw)
    }
}
