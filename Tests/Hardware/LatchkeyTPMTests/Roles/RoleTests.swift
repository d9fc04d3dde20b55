import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Every form of key of the keystore and the broker, in every handle of every command of the TPM
/// that can be a key, without a proof of the user's presence. The answers are the tables of the
/// threat model.
@Suite(.softwareTPM)
struct RoleTests {
    /// A form of key.
    private struct Form {
        let name: String
        let column: String
        let key: TSS2PrivateKey
        var known: [UInt8] = []
        var branches: [PolicyDigest] = []
        var isCounted = false
        var origin: TPMKeyBlob.Origin?

        init(_ name: String, _ column: String, _ blob: TPMKeyBlob, _ policy: AccessPolicy) throws {
            (self.name, self.column, key, origin) = (name, column, blob.key, blob.origin)
            known = blob.protection.authValue ?? []
            branches = try blob.branches(under: policy)
            isCounted = blob.protection.pinSalt != nil
        }

        init(_ name: String, _ column: String, _ key: TSS2PrivateKey) {
            (self.name, self.column, self.key) = (name, column, key)
        }
    }

    private static let columns = [
        "Signing keys and keys of the TPM": [
            "policy", "own PIN", "own PIN or finger", "none, revoked", "none", "attestation key",
            "approval key",
        ],
        "MAC keys and sealed secrets": [
            "MAC key, policy", "MAC key, own PIN", "MAC key, none", "secret, policy",
            "secret, own PIN", "secret, none",
        ],
    ]

    @Test func `the roles are those of every command of the TPM that takes a key`() throws {
        let roles = Set(KeyRole.all.map(\.code))
        #expect(roles.isDisjoint(with: KeyRole.others))
        let missing = try RoleBench.commandsWithHandles().subtracting(roles.union(KeyRole.others))
        #expect(missing.isEmpty, "\(missing.map { String($0, radix: 16) })")
    }

    @Test func `without a proof, each key answers in each role as the threat model says`()
        async throws
    {
        let commands = try RoleBench.commandsWithHandles()
        let roles = KeyRole.all.filter { commands.contains($0.code) }
        var answers: [String: [String]] = [:]
        try await withForms { form in
            let bench = try RoleBench(
                form.key, known: form.known, branches: form.branches, isCounted: form.isCounted,
                origin: form.origin)
            defer { bench.close() }
            let own = try roles.map { try bench.answers(to: $0) }
            let first = answers[form.column] ?? own
            answers[form.column] = first
            for (role, answer) in zip(roles, zip(own, first)) {
                #expect(answer.0 == answer.1, "\(form.name): \(role.title)")
            }
        }
        try Scene.expectNothingLoaded("after all attempts")
        for (title, columns) in Self.columns {
            var lines = [
                "| command, role of the key | " + columns.joined(separator: " | ") + " |",
                "|---|" + columns.map { _ in "---|" }.joined(),
            ]
            for (index, role) in roles.enumerated() {
                let cells = columns.map { answers[$0]?[index] ?? "" }
                lines.append("| \(role.title) | " + cells.joined(separator: " | ") + " |")
            }
            let documented = try Self.table(title)
            #expect(documented == lines)
            guard documented != lines else { continue }
            Issue.record("the table “\(title)” is:\n\(lines.joined(separator: "\n"))")
        }
    }

    /// The lines of the table below a heading of the threat model.
    private static func table(_ heading: String) throws -> [String] {
        var root = URL(filePath: #filePath)
        for _ in 0..<5 { root.deleteLastPathComponent() }
        let text = try String(
            contentsOf: root.appending(path: "Sources/Core/Latchkey/Latchkey.docc/ThreatModel.md"),
            encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let rest = lines.drop { $0 != "#### \(heading)" }.dropFirst()
        return Array(rest.drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") })
    }

    // MARK: The forms

    private func withForms(_ body: (Form) throws -> Void) async throws {
        let anchors = MemoryTrustAnchors()
        let own = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: anchors)
        try await plainForms(own, body)
        let identity = try await own.wrappedAttestationKey(for: "")
        try body(Form("attestation key", "attestation key", try Self.key(identity)))
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let authority = try await ApprovalAuthority(
                tcti: tpm.tcti, directory: directory.path)
            let broker = InProcessBroker(authority, [])
            let keystore = TPMKeystore(tcti: tpm.tcti, anchors: anchors)
            try await brokerForms(keystore, broker, body)
            let state = try #require(authority.store.current)
            let approval = WrappedAttestationKey(
                publicArea: state.publicArea, privatePart: state.privatePart)
            try body(Form("approval key", "approval key", try Self.key(approval)))
            try await ownPINOrFinger(keystore, broker, body)
        }
    }

    private static func key(_ wrapped: WrappedAttestationKey) throws -> TSS2PrivateKey {
        TSS2PrivateKey(
            kind: .loadable, hasEmptyAuth: true, parent: .storageRootKey,
            publicArea: try PublicArea(unmarshalling: wrapped.publicArea),
            privatePart: try #require(PrivateBlob(bytes: Array(wrapped.privatePart))))
    }

    /// Keys without the broker.
    private func plainForms(_ keystore: TPMKeystore, _ body: (Form) throws -> Void) async throws {
        for (policy, column) in [(AccessPolicy.none, "none"), (.pin, "own PIN")] {
            let user = { ScriptedPresence(pins: "123456") }
            let key = try await Scene.key(keystore, policy)
            try body(Form("\(policy)", column, TPMKeyBlob(key.blob), policy))
            let mac = try await keystore.createMACKey(
                policy: policy, for: Scene.prompt, authorizedBy: user())
            try body(Form("MAC \(policy)", "MAC key, \(column)", TPMKeyBlob(mac.blob), policy))
            let secret = try await keystore.seal(
                .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: user())
            try body(
                Form("secret \(policy)", "secret, \(column)", TPMKeyBlob(secret.blob), policy))
            let revocable = try await keystore.createRevocableKey(
                KeyRequest(policy: policy, prompt: Scene.prompt), authorizedBy: user()
            ) { _ in }
            let blob = try TPMKeyBlob(revocable.blob)
            if policy == .pin { try body(Form("pin revocable", "policy", blob, policy)) }
            try await keystore.delete(revocable)
            try body(
                Form(
                    "\(policy) revoked", policy == .pin ? "policy" : "none, revoked", blob, policy))
        }
    }

    /// Keys under the broker.
    private func brokerForms(
        _ keystore: TPMKeystore, _ broker: InProcessBroker, _ body: (Form) throws -> Void
    ) async throws {
        let reuse = [AccessPolicy.Requirement.pin, .biometryAny, .userPresence].compactMap {
            AccessPolicy($0, reuseSeconds: 60)
        }
        for policy in [.pin, .userPresence, .biometryAny, .biometryCurrentSet] + reuse {
            let user = {
                ScriptedPresence([.pin("123456")], broker: broker)
            }
            let key = try await Scene.key(keystore, policy, user())
            try body(Form("broker \(policy)", "policy", TPMKeyBlob(key.blob), policy))
            let mac = try await keystore.createMACKey(
                policy: policy, for: Scene.prompt, authorizedBy: user())
            try body(
                Form("broker MAC \(policy)", "MAC key, policy", TPMKeyBlob(mac.blob), policy))
            let secret = try await keystore.seal(
                .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: user())
            try body(
                Form("broker secret \(policy)", "secret, policy", TPMKeyBlob(secret.blob), policy))
        }
    }

    /// A key with its own PIN and the broker's finger, as on a TPM without memory for a PIN index.
    private func ownPINOrFinger(
        _ keystore: TPMKeystore, _ broker: InProcessBroker, _ body: (Form) throws -> Void
    ) async throws {
        var terms = try await broker.terms(for: .userPresence)
        terms.userPIN = nil
        let protection = try PresenceProtection(terms, for: .userPresence)
        let root = try await keystore.presentRoot()
        let authValue = try protection.authValue(PIN("123456"), boundTo: nil)
        let made = try await keystore.createObject(
            KeyTemplates.signingKey(.userPresence, protection), authValue: authValue, under: root)
        let id = KeyRequest(policy: .userPresence, prompt: Scene.prompt).id
        let binding = KeyBinding(id: id, label: nil)
        try body(
            Form(
                "own PIN or finger", "own PIN or finger",
                TPMKeyBlob(made, protection, boundTo: binding, under: root), .userPresence))
    }
}
