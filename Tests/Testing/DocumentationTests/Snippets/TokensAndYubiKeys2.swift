import Latchkey
import LatchkeyPKCS11

/// Lets OpenSSL use the key: `use` gets an `EVP_PKEY *`, which is valid until it returns.
func withOpenSSL(
    _ key: HardwareKey, on keystore: PKCS11Keystore, for person: any PresenceAuthority,
    use: @escaping @Sendable (OpaquePointer) throws -> Void
) async throws {
    try await keystore.withEVPKey(
        of: key, for: PromptContext(reason: "open a connection"), authorizedBy: person
    ) { evpKey in
        try use(evpKey)
    }
}
