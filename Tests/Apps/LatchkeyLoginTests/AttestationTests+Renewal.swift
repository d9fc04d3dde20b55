import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

extension AttestationTests {
    private static let day: TimeInterval = 86_400

    @Test
    func `a certificate that expires soon is renewed at the server, and the new one proves a key`()
        async throws
    {
        try await with(require: "hardware") { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let aging = Aging()
            let container = try await setting.start(transport: wire) {
                AgedCertificate(keystore: $0, aging: aging)
            }
            try await container.authorize()
            let first = try await container.activateAttestation()
            #expect(try await container.activateAttestation().certificates == first.certificates)
            #expect(attesting(wire).count == 2)

            aging.age(first.certificates, by: 61 * Self.day)
            let renewed = try await container.activateAttestation()
            #expect(attesting(wire).count == 4)
            #expect(renewed.attestationKey == first.attestationKey)
            #expect(
                !renewed.certificates.isEmpty
                    && renewed.certificates.first != first.certificates.first)
            #expect(
                setting.disclosures.count == 1,
                "a renewal reveals nothing new, so it does not prompt")
            #expect(try await container.activateAttestation().certificates == renewed.certificates)
            #expect(attesting(wire).count == 4)

            // Only the two activations carry the endorsement certificate.
            let endorsement = try #require(first.endorsementCertificates.first)
            let encoded = Base64URL.encode(endorsement)
            let carriers = wire.recordings.filter { $0.text.contains(encoded) }
            #expect(
                carriers.map(\.request.path) == [
                    "/attestation/activation", "/attestation/activation",
                ])

            try await container.enableBiometric()
            #expect(attesting(wire).count == 4)
            let statement = try #require(wire.recordings.compactMap { $0.form["attestation"] }.last)
            let object = try #require(Self.object(in: statement))
            #expect(object.range(of: try #require(renewed.certificates.first)) != nil)
            #expect(object.range(of: try #require(first.certificates.first)) == nil)
            try await container.logout(keepBiometric: true)
            _ = try await container.authenticateBiometric()
        }
    }

    /// - Parameters:
    ///   - days: The age of the first certificate at the renewal. It is valid for 90 days.
    ///   - waits: Whether the old certificate is used.
    @Test(arguments: [(61.0, true), (91.0, false)])
    func `a renewal that the server cannot answer waits until the certificate expires`(
        days: Double, waits: Bool
    ) async throws {
        try await with(require: "hardware") { setting in
            let server = InterruptedServer()
            let aging = Aging()
            let container = try await setting.start(transport: server) {
                AgedCertificate(keystore: $0, aging: aging)
            }
            try await container.authorize()
            let first = try await container.activateAttestation()
            aging.age(first.certificates, by: days * Self.day)
            server.isInterrupted.withLock { $0 = true }
            if waits {
                #expect(
                    try await container.activateAttestation().certificates == first.certificates)
                try await container.enableBiometric()
            } else {
                await #expect(throws: (any Error).self) { try await container.enableBiometric() }
                #expect(try await container.listBiometricKeys().isEmpty)
            }
            #expect(server.refusals.withLock { $0 } > 0)
            server.isInterrupted.withLock { $0 = false }
            #expect(try await container.activateAttestation().certificates != first.certificates)
            if !waits { try await container.enableBiometric() }
        }
    }

    /// The attestation object in a statement.
    private static func object(in statement: String) -> Data? {
        let members =
            try? JSONSerialization.jsonObject(with: Data(statement.utf8)) as? [String: Any]
        return (members?["object"] as? String).flatMap { Base64URL.decode($0) }
    }
}

/// Certificates that the keystore reports as older than they are, because a test cannot wait for
/// days.
private final class Aging: Sendable {
    private let state = Mutex((certificates: [Data](), seconds: TimeInterval(0)))

    func age(_ certificates: [Data], by seconds: TimeInterval) {
        state.withLock { $0 = (certificates, seconds) }
    }

    /// The seconds to subtract from the dates of these certificates.
    func seconds(of certificates: [Data]) -> TimeInterval {
        state.withLock { $0.certificates == certificates ? $0.seconds : 0 }
    }
}

/// A keystore whose first certificate of an attestation key is older than its real one.
private struct AgedCertificate: KeystoreWrapper {
    let keystore: any Keystore
    let aging: Aging

    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity
    {
        let identity = try await keystore.attesting().attestationIdentity(for: issuer)
        let seconds = aging.seconds(of: identity.certificates)
        return AttestationIdentity(
            attestationKey: identity.attestationKey,
            endorsementCertificates: identity.endorsementCertificates,
            certificates: identity.certificates,
            validFrom: identity.validFrom?.addingTimeInterval(-seconds),
            expiresAt: identity.expiresAt?.addingTimeInterval(-seconds))
    }
}

/// A transport on which activation requests fail while it is interrupted. All other requests reach
/// the server.
private final class InterruptedServer: HTTPTransport {
    let isInterrupted = Mutex(false)
    let refusals = Mutex(0)
    private let inner = CurlTransport()

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        guard request.path?.hasPrefix("/attestation/activation") == true,
            isInterrupted.withLock({ $0 })
        else {
            return try await inner.send(request, body: body)
        }
        refusals.withLock { $0 += 1 }
        return (HTTPResponse(status: .serviceUnavailable), [])
    }
}
