import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// An attacker with recorded traffic and the store guesses PINs offline, without a counter.
@Suite(.softwareTPM)
struct GuessingTests {
    private static let pin = "0129"

    @Test func `an attacker cannot find the PIN from a recorded signature`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore, pin: Self.pin)
        let blob = try TPMKeyBlob(key.blob)
        wire.forget()
        try await Scene.sign(keystore, key, pin: Self.pin)
        let guess = try Self.guess(from: wire.exchanges, blob)
        #expect(guess == nil)

        // With a session without a salt, as some other programs use, the attacker finds the PIN
        // immediately.
        wire.forget()
        let careless = try wire.transport(try SoftwareTPM.current)
        defer { careless.close() }
        let tpm = TPM(ResubmittingTransport(careless))
        let parent = try TPMObject(
            handle: .storageRootKey, publicArea: tpm.execute(ReadPublic(.storageRootKey)).publicArea
        )
        let authValue = try PINHardening.authValue(
            try PIN(Self.pin), salt: try #require(blob.protection.pinSalt), boundTo: blob.binding)
        try tpm.withSession(.hmac, saltedTo: nil) { (session) throws(TPMError) in
            try tpm.withLoaded(blob.key.privatePart, blob.key.publicArea, under: parent) {
                (object) throws(TPMError) in
                _ = try tpm.execute(
                    Sign(Scene.digest.bytes, with: object),
                    authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        }
        let solved = try Self.guess(from: wire.exchanges, blob)
        #expect(solved == Self.pin)
    }

    /// Tries the first 200 PINs of four digits against the proof in a recorded TPM2_Sign, as if its
    /// session had no salt.
    private static func guess(from exchanges: [Wire.Exchange], _ blob: TPMKeyBlob) throws -> String?
    {
        let start = try #require(exchanges.last { $0.code == .startAuthSession }).response
        let sign = try #require(exchanges.last { $0.code == .sign }).command
        // The response: header, handle, the nonce's size.
        let nonceTPM = latestNonce(before: sign, exchanges) ?? Array(start[16..<48])
        // The command: header, the key's handle, the area's size; of the authorization its handle,
        // nonce, attributes, HMAC.
        let area = Array(sign[18..<(18 + Int(sign[17]))])
        let (nonceCaller, attributes) = (Array(area[6..<38]), area[38])
        let proof = Array(area[41..<73])
        let parameters = Array(sign[(18 + area.count)...])
        let name = try blob.key.publicArea.name.bytes
        let commandHash = SHA256.hash(data: Data([0, 0, 0x01, 0x5d] + name + parameters))
        let salt = try #require(blob.protection.pinSalt)
        let binding = try #require(blob.binding).digest
        for number in 0..<200 {
            let digits = String(number)
            let pin = String(repeating: "0", count: 4 - digits.count) + digits
            let hardened = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: Data(pin.utf8)), salt: salt,
                info: Data("latchkey/tpm/pin/v1".utf8 + binding), outputByteCount: 32)
            let authValue = hardened.withUnsafeBytes { bytes in
                Array(bytes[..<((bytes.lastIndex { $0 != 0 } ?? -1) + 1)])
            }
            let guess = HMAC<SHA256>.authenticationCode(
                for: Array(commandHash) + nonceCaller + nonceTPM + [attributes],
                using: SymmetricKey(data: authValue))
            if Array(guess) == proof { return pin }
        }
        return nil
    }

    /// The TPM's last nonce in the same session: in the response to the command before, when that
    /// was in it.
    private static func latestNonce(before sign: [UInt8], _ exchanges: [Wire.Exchange]) -> [UInt8]?
    {
        let session = Array(sign[18..<22])
        guard let index = exchanges.lastIndex(where: { $0.code == .sign }),
            let earlier = exchanges[..<index].last(where: {
                $0.code == .load && Array($0.command[18..<22]) == session
            })
        else { return nil }
        // The response to Load: header, handle, the parameters' size, the parameters, the nonce's
        // size.
        let response = earlier.response
        let size = response[14..<18].reduce(0) { $0 << 8 | Int($1) }
        return Array(response[(18 + size + 2)...].prefix(32))
    }
}
