internal import CESAPI
internal import CTSS2
internal import Dispatch

/// The TPM client of tpm2-tss (ESAPI), an independent implementation to compare `TPM2` with.
///
/// Arguments and results are wire bytes, so that each implementation also decodes the structures
/// that the other encodes.
struct ESAPI: ~Copyable {
    /// An ESAPI call that did not succeed.
    struct Failure: Error, CustomStringConvertible {
        let function: String
        let code: UInt32

        var description: String { "\(function): 0x\(String(code, radix: 16))" }
    }

    let context: OpaquePointer

    /// Lends a connection to `body`, on a thread that may block, and closes it: a software TPM
    /// serves one at a time.
    static func connect<R: Sendable>(
        to tcti: String, _ body: @escaping @Sendable (borrowing ESAPI) throws -> R
    ) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try body(ESAPI(tcti: tcti)) })
            }
        }
    }

    private init(tcti: String) throws {
        var transport: OpaquePointer?
        try Self.check(Tss2_TctiLdr_Initialize(tcti, &transport), "Tss2_TctiLdr_Initialize")
        var context: OpaquePointer?
        let code = Esys_Initialize(&context, transport, nil)
        guard code == 0, let context else {
            Tss2_TctiLdr_Finalize(&transport)
            throw Failure(function: "Esys_Initialize", code: code)
        }
        self.context = context
    }

    deinit {
        var transport: OpaquePointer?
        Esys_GetTcti(context, &transport)
        var context: OpaquePointer? = context
        Esys_Finalize(&context)
        Tss2_TctiLdr_Finalize(&transport)
    }

    static func check(_ code: TSS2_RC, _ function: String) throws {
        guard code == 0 else { throw Failure(function: function, code: code) }
    }

    /// Takes over what ESAPI allocated: copies the value and frees the original.
    static func take<T>(_ pointer: UnsafeMutablePointer<T>?, _ function: String) throws -> T {
        guard let pointer else { throw Failure(function: "\(function) without a result", code: 0) }
        defer { Esys_Free(pointer) }
        return pointer.pointee
    }
}
