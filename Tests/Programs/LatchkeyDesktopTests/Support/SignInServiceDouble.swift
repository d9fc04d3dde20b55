import FoundationEssentials
import Latchkey
import LatchkeySimulators
import Synchronization

@testable import LatchkeyDesktop

/// The service with its store on the disk, but with a secret in memory in place of the TPM, and with
/// a point at which the program that uses it "is killed": calls after it throw.
final class SignInServiceDouble: SignInClient {
    struct Killed: Error {}

    static let user: UInt32 = 1000
    static var proof: SignInProof { get throws { .pin(try PIN("123456")) } }

    let store: SignInRecordStore
    private let directory: TemporaryDirectory
    private let steps = Mutex(Int.max)
    /// What the TPM would open with the PIN.
    private let unsealed = Mutex<SecretBytes?>(nil)

    init() throws {
        directory = try TemporaryDirectory()
        store = SignInRecordStore(directory: directory.path)
    }

    /// The number of calls that have an effect before all later ones fail; nil for no limit.
    func kill(after count: Int?) { steps.withLock { $0 = count ?? .max } }

    /// Counts a step.
    func step() throws(CommonError) {
        let isAlive = steps.withLock { left in
            defer { if left > 0, left != .max { left -= 1 } }
            return left > 0
        }
        guard isAlive else { throw .of(.transient) }
    }

    private func record() throws(CommonError) -> SignInRecord {
        guard let record = try store.read(user: Self.user) else { throw .of(.notFound) }
        return record
    }

    func status() throws(CommonError) -> SignInStatus {
        let record = try store.read(user: Self.user)
        return SignInStatus(
            record: record.map {
                SignInStatus.Record(
                    state: $0.state, kind: $0.kind, generation: $0.generation,
                    seal: $0.provableSeal == nil ? .absent : .pin,
                    wrap: $0.wraps.isEmpty ? .absent : .fresh)
            }, hasPIN: true, isAllowed: true)
    }

    func enrol(
        _ kind: KeyringKind, secret: SecretBytes, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> UInt64 {
        try step()
        guard try store.read(user: Self.user) == nil else { throw .of(.conflict) }
        var record = SignInRecord(user: Self.user, name: "ann", kind: kind)
        unsealed.withLock { $0 = secret }
        record.add(try PasswordWrap(quick: secret, password: password, binding: record.nextBinding))
        record.seal([1], with: 0)
        return try store.write(record).generation
    }

    func renew(password: SecretBytes, proof: SignInProof) throws(CommonError) -> UInt64 {
        try step()
        var record = try record()
        if let index = try record.open(password: password)?.index {
            record.seal([2], with: index)
        } else {
            guard record.sealed != nil, let secret = unsealed.withLock({ $0 }) else {
                throw .of(.wrongProof)
            }
            record.add(
                try PasswordWrap(quick: secret, password: password, binding: record.nextBinding))
            record.seal([2], with: 0)
        }
        return try store.write(record).generation
    }

    func activate(generation: UInt64) throws(CommonError) {
        try step()
        var record = try record()
        guard record.generation == generation else { throw .of(.conflict) }
        record.state = .active
        _ = try store.write(record)
    }

    func release(password: SecretBytes) throws(CommonError) -> SecretBytes {
        guard let opened = try record().open(password: password) else { throw .of(.wrongProof) }
        return opened.secret
    }

    func remove(generation: UInt64, password: SecretBytes) throws(CommonError) {
        try step()
        _ = try release(password: password)
        try store.remove(user: Self.user, generation: generation)
    }
}

/// As if the user had chosen the proof just now.
extension KeyringEnrolment {
    func enable(password: SecretBytes, proof: SignInProof) throws(CommonError) -> Outcome {
        try enable(service.status().record, password: password, proof: proof)
    }

    func enableWallet(key: SecretBytes, password: SecretBytes, proof: SignInProof)
        throws(CommonError) -> Outcome
    {
        try enableWallet(service.status().record, key: key, password: password, proof: proof)
    }

    func enableWithoutKeyring(password: SecretBytes, proof: SignInProof) throws(CommonError)
        -> Outcome
    {
        try enableWithoutKeyring(service.status().record, password: password, proof: proof)
    }
}

/// A keyring whose changes count as steps of the service double: before and after each change the
/// program can be killed.
struct KillableKeyring: Keyring {
    let keyring: any Keyring
    let service: SignInServiceDouble

    func unlock(_ secret: SecretBytes, until deadline: ContinuousClock.Instant) throws(CommonError)
        -> GnomeKeyring.Answer
    {
        try keyring.unlock(secret, until: deadline)
    }

    func change(
        from old: SecretBytes, to new: SecretBytes, until deadline: ContinuousClock.Instant
    ) throws(CommonError) -> GnomeKeyring.Answer {
        try service.step()
        let answer = try keyring.change(from: old, to: new, until: deadline)
        try service.step()
        return answer
    }
}

extension PasswordWrap {
    /// A copy with little work: debug builds of scrypt take seconds.
    init(quick secret: SecretBytes, password: SecretBytes, binding: Binding) throws(CommonError) {
        let salt = Data((0..<Self.saltLength).map { _ in UInt8.random(in: .min ... .max) })
        try self.init(secret, password: password, binding: binding, logRounds: 4, salt: salt)
    }
}
