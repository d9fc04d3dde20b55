import Latchkey
import LatchkeyCertificates
import X509

/// A request to a certification authority, in PEM.
func request(for key: HardwareKey, in keystore: any Keystore, by person: any PresenceAuthority)
    async throws -> String
{
    let request = try await keystore.certificateSigningRequest(
        subject: DistinguishedName(rfc4514: "CN=Ann Onymous,O=Example"), with: key,
        for: PromptContext(reason: "ask for a certificate"), authorizedBy: person)
    return try request.serializeAsPEM().pemString
}
