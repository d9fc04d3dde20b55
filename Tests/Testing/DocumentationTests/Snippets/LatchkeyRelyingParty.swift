import LatchkeyRelyingParty

/// The part of a token endpoint that logs a device in.
func logIn(
    with jwt: String, for audience: BiometricAudience, challenges: any ChallengeStore,
    devices: any DeviceRegistry
) async throws -> String {
    let request = try BiometricRequest(jwt)
    guard request.action == .authenticate else {
        throw OAuthError.invalidRequest("this place is for logging in")
    }
    let verifier = BiometricRequestVerifier(challenges: challenges, devices: devices)
    return try await verifier.verifyAuthentication(request, for: audience).userID
}
