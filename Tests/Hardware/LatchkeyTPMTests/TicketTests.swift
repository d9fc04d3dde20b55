import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// The ticket of a reusable proof crosses the bus in plain text. An attacker on the bus copies it
/// and the key's wrapped bytes, and tries to sign in another session.
@Suite(.softwareTPM)
struct TicketTests {
    private static let other = MessageDigest(sha256: Array("another message".utf8))

    /// The ticket, as the attacker reads it on the bus.
    private func ticket(_ wire: Wire) throws -> ApprovalTicket {
        let exchange = try #require(
            wire.exchanges.last { [.policySigned, .policySecret].contains($0.code) })
        // The header, and the size of the parameters where there are authorizations.
        var reader = TPMReader(
            exchange.response.dropFirst(exchange.code == .policySigned ? 10 : 14))
        let ticket = try ApprovalTicket(from: &reader)
        #expect(!ticket.timeout.isEmpty, "it is valid for some seconds")
        return ticket
    }

    /// Signs another digest with the ticket.
    ///
    /// - Returns: The TPM's answer, or nil when it signed.
    private func attack(
        _ attacker: Attacker, _ ticket: ApprovalTicket, byPIN: Bool, claimingAuthValue: Bool = false
    ) async throws -> UInt32? {
        try await Attacker.sign(attacker, digest: Self.other) { tpm, session in
            let pin = attacker.blob.protection.userPIN
            let reference =
                byPIN ? PresenceReference.pin(under: attacker.policy) : attacker.reference
            let name = byPIN ? try #require(pin).index.name : try attacker.finger.authority.name
            try tpm.execute(
                PolicyTicket(ticket, for: Approval(policyRef: reference), by: name), in: session)
            if try attacker.branches.count > 1 {
                try tpm.execute(PolicyOR(attacker.branches), in: session)
            }
            if claimingAuthValue { try tpm.execute(PolicyAuthValue(), in: session) }
        }
    }

    private func presence(_ policy: AccessPolicy, _ broker: InProcessBroker) -> ScriptedPresence {
        policy.hasPIN
            ? ScriptedPresence(
                Array(repeating: .pin("123456"), count: 3), broker: broker, preferring: .pin)
            : ScriptedPresence([], broker: broker)
    }

    @Test(arguments: [AccessPolicy.Requirement.biometryAny, .userPresence])
    func `a ticket from the bus signs no other digest`(_ requirement: AccessPolicy.Requirement)
        async throws
    {
        try await Scene.withBroker(.matches) { wire, _, broker in
            let anchors = MemoryTrustAnchors()
            let keystore = wire.keystore(try SoftwareTPM.current, anchors: anchors)
            let policy = try #require(AccessPolicy(requirement, reuseSeconds: 60))
            let presence = presence(policy, broker)
            let key = try await Scene.key(keystore, policy, presence)
            try await Scene.sign(keystore, key, presence)
            let ticket = try ticket(wire)
            let attacker = try await Attacker(key, anchors: anchors)
            #expect(
                try await attack(attacker, ticket, byPIN: policy.hasPIN) == 0x99d,
                "TPM_RC_POLICY_FAIL")
            let claimed = try await attack(
                attacker, ticket, byPIN: policy.hasPIN, claimingAuthValue: true)
            #expect(claimed == 0x9a2, "TPM_RC_BAD_AUTH")
            let secret = try #require(attacker.blob.protection.authValue)
            #expect(
                secret.count == 32 && wire.bytes.firstRange(of: secret) == nil,
                "it is not on the bus")
            let prompts = broker.requests.count + presence.requests.count
            try await Scene.sign(keystore, key, presence)
            #expect(
                broker.requests.count + presence.requests.count == prompts,
                "the owner's ticket still serves")
        }
    }

    @Test func `a ticket from the bus opens no sealed secret`() async throws {
        try await Scene.withBroker(.matches) { wire, keystore, broker in
            let policy = try #require(AccessPolicy(.biometryAny, reuseSeconds: 60))
            let presence = presence(policy, broker)
            let bytes = SecretBytes.random(count: 32)
            let secret = try await keystore.seal(
                bytes, policy: policy, for: Scene.prompt, authorizedBy: presence)
            #expect(
                try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
                    == bytes)
            let ticket = try ticket(wire)
            let blob = try TPMKeyBlob(secret.blob)
            let finger = try #require(blob.protection.finger)
            let error = #expect(throws: TPMError.self) {
                try Scene.look { tpm in
                    let parent = try tpm.execute(ReadPublic(.storageRootKey))
                    try tpm.withSession(.policy, saltedTo: parent) { (session) throws(TPMError) in
                        try tpm.execute(
                            PolicyTicket(
                                ticket, for: Approval(policyRef: finger.reference(under: policy)),
                                by: finger.authority.name), in: session)
                        try tpm.withLoaded(blob.key.privatePart, blob.key.publicArea, under: parent)
                        {
                            (object) throws(TPMError) in
                            _ = try tpm.execute(Unseal(object), authorizedBy: .lastUse(of: session))
                        }
                    }
                }
            }
            #expect(error?.responseCode?.rawValue == 0x99d)
            #expect(
                try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
                    == bytes)
            #expect(broker.requests.count == 1)
        }
    }
}
