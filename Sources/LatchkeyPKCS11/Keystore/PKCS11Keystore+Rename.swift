public import Latchkey

extension PKCS11Keystore {
    /// Gives a key another label, in the store only: the token keeps the label with which the key was made, and proves
    /// nothing here.
    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = "rename a key"
        var blob = try TokenKeyBlob.of(key, operation)
        blob.binding = KeyBinding(id: key.id, label: label)
        return key.replacing(blob: try serialized(blob, operation), label: label)
    }
}
