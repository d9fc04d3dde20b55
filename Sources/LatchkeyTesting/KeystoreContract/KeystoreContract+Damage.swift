internal import FoundationEssentials
internal import Latchkey
internal import Testing

extension KeystoreContract {
    func damagedKey(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, free)
        for (damage, blob) in Self.damages(of: key.blob) {
            await Self.expect(.damaged, .wrongDevice, of: "sign, \(damage)") {
                _ = try await sign(keystore, key.replacing(blob: blob))
            }
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest), "the undamaged key still signs")
    }

    func damagedSecret(_ keystore: any Keystore) async throws {
        guard let secret = try await sealed(keystore, free) else { return }
        let bytes = try await unseal(keystore, secret)
        for (damage, blob) in Self.damages(of: secret.blob) {
            await Self.expect(.damaged, .wrongDevice, of: "unseal, \(damage)") {
                _ = try await unseal(keystore, secret.replacing(blob: blob))
            }
        }
        #expect(try await unseal(keystore, secret) == bytes, "the undamaged secret still opens")
    }

    /// A row whose policy was made laxer must not free its owner from the PIN.
    func editedPolicy(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let edited = HardwareKey(
            id: key.id, backend: key.backend, policy: .none, assurance: key.assurance, publicKey: key.publicKey,
            label: key.label, createdAt: key.createdAt, blob: key.blob)
        await Self.expect(.damaged, .wrongDevice, .wrongProof, of: "sign with the policy edited to none") {
            _ = try await sign(keystore, edited)
        }
        guard device.hasOpenKeys, let secret = try await sealed(keystore, guarded) else { return }
        let lax = SealedSecret(
            backend: secret.backend, policy: .none, assurance: secret.assurance, blob: secret.blob)
        await Self.expect(.damaged, .wrongDevice, .wrongProof, of: "unseal with the policy edited to none") {
            _ = try await unseal(keystore, lax)
        }
    }

    func editedPublicKey(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, free)
        let stranger = try await makeKey(keystore, secondFree)
        let edited = HardwareKey(
            id: key.id, backend: key.backend, policy: key.policy, assurance: key.assurance,
            publicKey: stranger.publicKey, label: key.label, createdAt: key.createdAt, blob: key.blob)
        await Self.expect(.damaged, of: "sign with another key's public half") {
            _ = try await sign(keystore, edited)
        }
    }

    func otherDevice(_ keystore: any Keystore) async throws {
        let open = try await makeKey(keystore, free)
        let guarded = try await makeKey(keystore, guarded)
        let secret = try await sealed(keystore, free)
        try await openOther { other in
            await Self.expect(.wrongDevice, of: "sign on another device") { _ = try await sign(other, open) }
            await Self.expect(.wrongDevice, of: "sign with a PIN on another device") {
                _ = try await sign(other, guarded)
            }
            if let secret {
                await Self.expect(.wrongDevice, of: "unseal on another device") {
                    _ = try await unseal(other, secret)
                }
            }
            await Self.expect(.wrongDevice, of: "change the PIN on another device") {
                _ = try await other.changePIN(
                    of: [guarded], secrets: [], for: Self.prompt,
                    authorizedBy: person(.right, .new))
            }
        }
        let signature = try await sign(keystore, guarded)
        #expect(guarded.publicKey.isValid(signature, for: Self.digest), "the key still works where it was made")
    }

    /// Every 7th bit turned over, one bit at a time (7 has no common factor with 8, so that every bit of a byte gets
    /// its turn); the blob cut short at every 5th length; a byte too many; and nothing at all.
    private static func damages(of blob: Data) -> [(String, Data)] {
        let bytes = Array(blob)
        let flips = stride(from: 0, to: bytes.count * 8, by: 7).map { bit in
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            return ("bit \(bit) of \(bytes.count * 8) turned over", Data(flipped))
        }
        let cuts = stride(from: 0, to: bytes.count, by: 5).map { count in
            ("cut to \(count) of \(bytes.count) bytes", Data(bytes.prefix(count)))
        }
        return flips + cuts + [("a byte too many", Data(bytes + [0]))]
    }
}
