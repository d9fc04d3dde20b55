import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyTPM

/// Keys and secrets of another TPM are refused before the user enters a PIN for them.
@Suite(.softwareTPM, .timeLimit(.minutes(15)))
struct OtherTPMTests {
    /// The storage root keys.
    enum Roots: CaseIterable {
        /// The other TPM has none.
        case missing
        /// The other TPM has its own.
        case different
        /// Another program uses the handle on the first TPM, so the key is derived for each use.
        case derived
    }

    /// A use with a PIN.
    enum Use: CaseIterable { case sign, unseal, changePIN, rename, certify, deriveMAC }

    /// The objects of a TPM.
    private struct Objects {
        let anchors = MemoryTrustAnchors()
        let key: HardwareKey
        let secret: SealedSecret

        init(_ keystore: (any TrustAnchors) -> TPMKeystore) async throws {
            let keystore = keystore(anchors)
            key = try await Scene.key(keystore)
            secret = try await keystore.seal(
                .random(count: 32), policy: .pin, for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "123456"))
            // A later statement needs no new key.
            _ = try await keystore.attest(key, challenge: Data(repeating: 1, count: 16))
        }

        func use(
            _ use: Use, _ keystore: TPMKeystore, _ presence: ScriptedPresence
        ) async throws(KeystoreError) {
            let prompt = Scene.prompt
            switch use {
            case .sign: try await Scene.sign(keystore, key, presence)
            case .unseal:
                _ = try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
            case .changePIN:
                _ = try await keystore.changePIN(
                    of: [key], secrets: [secret], for: prompt, authorizedBy: presence)
            case .rename:
                _ = try await keystore.rename(
                    key, to: "another", for: prompt, authorizedBy: presence)
            case .certify:
                let request = AttestationRequest(
                    challenge: Data(repeating: 1, count: 16), form: .certify, prompt: prompt)
                _ = try await keystore.attest(key, for: request, authorizedBy: presence)
            case .deriveMAC:
                _ = try await keystore.sign(
                    with: key, after: [Data(repeating: 1, count: 32)], with: secret, for: prompt,
                    authorizedBy: presence
                ) { _ in Scene.digest }
            }
        }
    }

    @Test(arguments: Roots.allCases, [false, true])
    func `no prompt comes before the refusal`(_ roots: Roots, _ isShared: Bool) async throws {
        let tcti = try SoftwareTPM.current.tcti
        if roots == .derived { _ = try Scene.takeStorageRootHandle() }
        let objects = try await Objects { TPMKeystore(tcti: tcti, anchors: $0) }
        try await SoftwareTPM.withRunning { other in
            if roots != .missing {
                _ = try await Scene.key(
                    TPMKeystore(tcti: other.tcti, anchors: MemoryTrustAnchors()), .none)
            }
            for use in Use.allCases {
                let (wire, presence) = (Wire(), ScriptedPresence(pins: "123456", "123456"))
                let keystore = wire.keystore(other, anchors: objects.anchors, isShared: isShared)
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await objects.use(use, keystore, presence)
                }
                #expect(error?.code == .wrongDevice, "\(use): \(String(describing: error))")
                #expect(error?.reason.contains("another TPM") == true, "\(use)")
                #expect(presence.requests.isEmpty, "\(use)")
            }
        }
        for use in Use.allCases where use != .changePIN && use != .rename {
            let presence = ScriptedPresence(pins: "123456", "123456")
            try await objects.use(
                use, TPMKeystore(tcti: tcti, anchors: objects.anchors), presence)
            #expect(!presence.requests.isEmpty, "\(use)")
        }
    }
}
