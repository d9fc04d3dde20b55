import Crypto
import FoundationEssentials
import SwiftASN1

@testable import Latchkey
@testable import LatchkeyTPM
@testable import TPM2

extension FuzzTarget {
    /// Responses of a TPM to each typed command. The first byte chooses the command, the other
    /// bytes are the response. Its size field is corrected, so that the fuzzer reaches the parsers
    /// behind the header, unless the first byte's high bit is set.
    static let tpmResponses = FuzzTarget("tpm-responses") { (input) throws(Contradiction) in
        guard let choice = input.first else { return }
        let response = Array(input.dropFirst())
        let calls = TPMCalls.all
        let transport = AnsweringTransport(choice & 0x80 == 0 ? response.withTrueSize : response)
        try? calls[Int(choice & 0x7f) % calls.count](TPM(transport))
    }

    /// Authentic responses in a session with parameter decryption: the bytes are the parameters of
    /// `Unseal` and `Create`, with an HMAC under the session's key.
    static let tpmSessions = FuzzTarget("tpm-sessions") { (input) throws(Contradiction) in
        guard let choice = input.first else { return }
        let session = Session(
            handle: TPMHandle(rawValue: 0x0200_0000), kind: .hmac,
            salt: SymmetricKey(data: [UInt8](repeating: 1, count: 32)),
            nonceCaller: [UInt8](repeating: 2, count: 32),
            nonceTPM: [UInt8](repeating: 3, count: 32))
        let transport = ProvingTransport(
            session: session, parameters: Array(input.dropFirst()), encrypts: choice & 1 == 1)
        let tpm = TPM(transport)
        let authorization = Authorization.lastUse(
            of: session, protecting: choice & 1 == 1 ? .encrypt : [])
        switch choice >> 1 & 1 {
        case 0: _ = try? tpm.execute(Unseal(TPMCalls.key), authorizedBy: authorization)
        default:
            _ = try? tpm.execute(
                Create(TPMCalls.template, under: TPMCalls.key), authorizedBy: authorization)
        }
    }

    /// The TPM structures in stored blobs and in messages.
    static let tpmStructures = FuzzTarget("tpm-structures") { (input) throws(Contradiction) in
        try rewritten(PublicArea.self, input)
        try rewritten(NVPublicArea.self, input)
        try rewritten(SavedContext.self, input)
        try rewritten(PrivateBlob.self, input)
        try rewritten(TPMSignature.self, input)
        try rewritten(Ticket.self, input)
        _ = try? Attest(unmarshalling: input)
        _ = try? CreationData(unmarshalling: input)
        if let area = try? PublicArea(unmarshalling: input) {
            _ = try? area.name
            _ = try? SessionSalt(for: area)
        }
        _ = try? StorageRoot(anchor: Data(input))
        if let protection = try? PresenceProtection(bytes: input) {
            try expect(protection.bytes == input, "a protection is written as something else")
            _ = try? protection.digest(under: .userPresence)
        }
        guard let state = try? JSONDecoder().decode(AuthorityState.self, from: Data(input)) else {
            return
        }
        _ = try? StorageRoot(anchor: state.root)
        _ = try? PublicArea(unmarshalling: Array(state.publicArea))
        _ = PrivateBlob(bytes: Array(state.privatePart))
    }

    /// `TSS2 PRIVATE KEY` files, and the stored blobs around them. The digest at the end of a
    /// stored blob is corrected.
    static let tpmKeys = FuzzTarget("tpm-keys") { (input) throws(Contradiction) in
        if let key = try? TSS2PrivateKey(derEncoded: input) {
            let again = try? TSS2PrivateKey(derEncoded: serialized(key))
            try expect(again == key, "a key file is written as something else")
        }
        if let blob = try? TPMKeyBlob(Data(input) + Data(SHA256.hash(data: input))) {
            let again = try? TPMKeyBlob(blob.serialized)
            try expect(again == blob, "a stored key is written as something else")
        }
    }

    private static func rewritten<T: TPMMarshallable & TPMUnmarshallable>(
        _ type: T.Type, _ input: [UInt8]
    ) throws(Contradiction) {
        guard let value = try? T(unmarshalling: input) else { return }
        try expect(value.marshalled == input, "a \(type) is written as something else")
    }
}
