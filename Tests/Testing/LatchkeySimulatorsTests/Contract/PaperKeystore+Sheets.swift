import Crypto
import FoundationEssentials
import Latchkey
import Synchronization

extension PaperKeystore {
    /// The first bytes of a blob, which identify its device.
    private var mark: Data {
        Data(SHA256.hash(data: device.withUnsafeBytes { Data($0) })).prefix(8)
    }

    func owns(_ secret: SealedSecret) async -> Bool? { secret.blob.starts(with: mark) }

    func blob(_ sheet: Sheet) throws(KeystoreError) -> Data {
        do {
            guard let sealed = try AES.GCM.seal(JSONEncoder().encode(sheet), using: device).combined
            else {
                throw SheetError()
            }
            return mark + sealed
        } catch {
            throw .damaged("it can't be encrypted")
        }
    }

    func sheet(_ blob: Data) throws(KeystoreError) -> Sheet {
        guard blob.count > mark.count else { throw .damaged("it is too short") }
        if fault != .takesAnyDevice, blob.prefix(mark.count) != mark {
            throw KeystoreError(
                operation: "read a blob", code: .wrongDevice,
                reason: "it belongs to another device",
                recovery: "Use it there.")
        }
        let sealed = blob.dropFirst(mark.count)
        do {
            if fault == .overlooksTheEnd, let sheet = try? open(sealed.dropLast()) { return sheet }
            return try open(sealed)
        } catch {
            throw .damaged("its authentication failed")
        }
    }

    private func open(_ sealed: Data) throws -> Sheet {
        try JSONDecoder().decode(
            Sheet.self, from: AES.GCM.open(AES.GCM.SealedBox(combined: sealed), using: device))
    }

    func newBlob(
        _ content: Data, _ policy: AccessPolicy, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Data {
        switch policy.requirement {
        case .none: return try blob(Sheet(policy: policy, pin: nil, content: content))
        case .pin: break
        default:
            guard fault == .weakensPolicies else {
                throw .unsupported("paper knows no fingers", recovery: "Use a PIN.")
            }
        }
        let pin = try await pinDigest(PINRequest(purpose: .new, context: prompt), presence)
        return try blob(Sheet(policy: policy, pin: pin, content: content))
    }

    func authorize(_ sheet: Sheet, _ prompt: PromptContext, _ presence: any PresenceAuthority)
        async throws(KeystoreError)
    {
        guard sheet.policy.requirement != .none else { return }
        let isReusable = sheet.policy.reuseSeconds > 0 && fault != .asksEachTime
        let (pins, endings) = proven.withLock(\.self)
        let takesAny = presence.acceptsEarlierProof || fault == .ignoresForbiddenReuse
        if isReusable, takesAny, let pin = sheet.pin, pins.contains(pin) { return }
        for attempt in 1...2 {
            let status = try await pinStatus()
            if fault != .asksWhenLocked, status.isLockedOut { throw Self.lockedOut }
            let request = PINRequest(
                purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft)
            let pin = try await pinDigest(request, presence)
            if status.isLockedOut { throw Self.lockedOut }
            if pin == sheet.pin || fault == .ignoresPIN {
                presence.accepted()
                guard isReusable, presence.acceptsEarlierProof || fault == .keepsForbiddenProofs
                else { return }
                return proven.withLock { proven in
                    if proven.endings == endings || fault == .keepsLateProofs {
                        proven.pins.insert(pin)
                    }
                }
            }
            presence.rejected()
            let failed = fault == .forgetsToCount ? 0 : 1
            let left = failures.withLock { failures in
                failures += failed
                return Self.limit - failures
            }
            guard fault == .asksAgain, attempt == 1 else {
                throw KeystoreError(
                    operation: "open it", code: .wrongProof, reason: "the PIN is wrong",
                    recovery: "Try again.",
                    attemptsLeft: left)
            }
        }
    }

    private static let lockedOut = KeystoreError(
        operation: "open it", code: .lockedOut, reason: "too many PINs were wrong",
        recovery: "Wait.")

    func pinDigest(_ request: PINRequest, _ presence: any PresenceAuthority)
        async throws(KeystoreError) -> Data
    {
        switch try await presence.pin(request) {
        case .declined(let why):
            guard fault != .takesNoForAnError else {
                throw KeystoreError(
                    operation: "ask", code: .failed, reason: why, recovery: "Say yes.")
            }
            throw .cancelled(why)
        case .pin(let pin):
            return pin.withUnsafeBytes { bytes in
                Data(
                    SHA256.hash(
                        data: fault == .readsHalfThePIN
                            ? bytes.prefix(32).map(\.self) : Array(bytes)))
            }
        }
    }
}
