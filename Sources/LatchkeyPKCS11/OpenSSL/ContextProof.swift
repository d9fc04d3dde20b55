internal import CLibP11
internal import Latchkey
internal import Synchronization

/// The PIN that one signature of an always-authenticating key takes (`CKA_ALWAYS_AUTHENTICATE`), given to libp11 once.
///
/// libp11 asks for it through an OpenSSL `UI_METHOD`. There is one such method in this process, and it never falls back
/// to OpenSSL's own, which would ask at the terminal: without a proof the answer is that there is none.
final class ContextProof: Sendable {
    private let proof: Mutex<LoginProof?>

    init(_ proof: LoginProof?) { self.proof = Mutex(proof) }

    /// Has libp11 ask this proof, until ``withdraw(from:)``.
    func offer(to context: UnsafeMutablePointer<PKCS11_CTX>) {
        PKCS11_set_ui_method(context, Self.method, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Has libp11 ask nobody any more.
    static func withdraw(from context: UnsafeMutablePointer<PKCS11_CTX>) {
        PKCS11_set_ui_method(context, method, nil)
    }

    /// Forgets the proof, wherever it is still offered.
    func revoke() { proof.withLock { $0 = nil } }

    private func answer(_ interface: OpaquePointer?, _ prompt: OpaquePointer?) -> Int32 {
        guard let proof = proof.withLock({ $0.take() }) else { return 0 }
        return proof.withTerminatedBytes { pin in
            guard let pin else { return 0 }
            return UI_set_result(interface, prompt, pin) == 0 ? 1 : 0
        }
    }

    /// Made once and never freed. libp11 checks the lengths that it asked for, 4 to 32.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        let method = UI_create_method("Latchkey")
        UI_method_set_reader(method) { interface, prompt in
            // Only a prompt wants an answer; text to be shown is nobody's here.
            guard UI_get_string_type(prompt) == UIT_PROMPT else { return 1 }
            guard let proof = UI_get0_user_data(interface) else { return 0 }
            return Unmanaged<ContextProof>.fromOpaque(proof).takeUnretainedValue().answer(interface, prompt)
        }
        return method
    }()
}
