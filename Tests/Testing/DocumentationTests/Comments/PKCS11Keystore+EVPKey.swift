import Latchkey
import LatchkeyPKCS11

/// OpenSSL's function and a context, which the app has from its own C module.
private func SSL_CTX_use_PrivateKey(_ context: Int, _ key: OpaquePointer) -> Int { context }
private let context = 1

private func useInTLS(
    _ key: HardwareKey, of keystore: PKCS11Keystore, for prompt: PromptContext,
    authorizedBy presence: any PresenceAuthority
) async throws -> Int {
    let result = try await keystore.withEVPKey(
        of: key, for: prompt, authorizedBy: presence
    ) { evpKey in
        SSL_CTX_use_PrivateKey(context, evpKey)
    }
    return result
}
