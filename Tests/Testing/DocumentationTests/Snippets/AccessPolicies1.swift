import Latchkey

/// Creates a key that requires a fingerprint or the PIN, or only the PIN if this hardware cannot
/// read fingerprints.
func makeKey(in keystore: any Keystore, for person: any PresenceAuthority) async throws
    -> HardwareKey
{
    let canAskForFingers = try await keystore.capabilities().requirements.contains(.userPresence)
    let request = KeyRequest(
        policy: canAskForFingers ? .userPresence : .pin, label: "release",
        prompt: PromptContext(reason: "make a key for releases"))
    return try await keystore.createKey(request, authorizedBy: person)
}
