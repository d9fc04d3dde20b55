import Latchkey

/// A key that wants a finger or the PIN where this hardware can see to that, and the PIN elsewhere.
func makeKey(in keystore: any Keystore, for person: any PresenceAuthority) async throws -> HardwareKey {
    let canAskForFingers = try await keystore.capabilities().requirements.contains(.userPresence)
    let request = KeyRequest(
        policy: canAskForFingers ? .userPresence : .pin, label: "release",
        prompt: PromptContext(reason: "make a key for releases"))
    return try await keystore.createKey(request, authorizedBy: person)
}
