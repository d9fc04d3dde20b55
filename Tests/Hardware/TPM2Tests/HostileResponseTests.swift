import LatchkeyTesting
import TPM2
import Testing

/// Truncated and changed responses of a TPM. No response may crash the library.
@Suite(.softwareTPM)
struct HostileResponseTests {
    private typealias Call = (TPM) throws(TPMError) -> Void

    /// The commands whose responses have parameters, with valid arguments.
    private static func calls(_ test: TestTPM, _ key: CreatedObject) throws -> [(String, Call)] {
        let parent = test.parent
        return [
            (
                "GetCapability, properties",
                { (tpm) throws(TPMError) in _ = try tpm.properties(from: .revision, count: 12) }
            ),
            (
                "GetCapability, handles",
                { (tpm) throws(TPMError) in _ = try tpm.handles(from: .persistentFirst) }
            ),
            (
                "ReadPublic",
                { (tpm) throws(TPMError) in _ = try tpm.execute(ReadPublic(.storageRootKey)) }
            ),
            ("ReadClock", { (tpm) throws(TPMError) in _ = try tpm.execute(ReadClock()) }),
            (
                "StartAuthSession",
                { (tpm) throws(TPMError) in
                    _ = try tpm.execute(StartAuthSession(.hmac, saltedTo: parent))
                }
            ),
            (
                "Create",
                { (tpm) throws(TPMError) in
                    _ = try tpm.execute(Create(TestTPM.signingTemplate(), under: parent))
                }
            ),
            (
                "Load",
                { (tpm) throws(TPMError) in
                    _ = try tpm.execute(Load(key.privatePart, key.publicArea, under: parent))
                }
            ),
            (
                "CreatePrimary",
                { (tpm) throws(TPMError) in
                    _ = try tpm.execute(CreatePrimary(TestTPM.storageTemplate, in: .owner))
                }
            ),
        ]
    }

    @Test func `every truncated response is refused`() async throws {
        try await TestTPM.with { test in
            for (name, call, response) in try Self.recorded(test) {
                for count in 0..<response.count {
                    #expect(throws: TPMError.self, "\(name), \(count) of \(response.count) bytes") {
                        try call(TPM(CannedTransport(Array(response.prefix(count)))))
                    }
                    // The same with a matching length in the header, so that the parsers must
                    // detect it.
                    guard count > 10 else { continue }
                    #expect(throws: TPMError.self, "\(name), honest about its \(count) bytes") {
                        try call(TPM(CannedTransport(Self.resized(Array(response.prefix(count))))))
                    }
                }
            }
        }
    }

    @Test func `every response with an extra byte is refused`() async throws {
        try await TestTPM.with { test in
            for (name, call, response) in try Self.recorded(test) {
                #expect(throws: TPMError.self, "\(name)") {
                    try call(TPM(CannedTransport(response + [0])))
                }
                #expect(throws: TPMError.self, "\(name), honest") {
                    try call(TPM(CannedTransport(Self.resized(response + [0]))))
                }
            }
        }
    }

    @Test func `no flipped bit causes a crash`() async throws {
        try await TestTPM.with { test in
            for (name, call, response) in try Self.recorded(test) {
                var refused = 0
                for bit in 0..<(response.count * 8) {
                    var bent = response
                    bent[bit / 8] ^= 1 << UInt8(bit % 8)
                    do throws(TPMError) { try call(TPM(CannedTransport(bent))) } catch {
                        refused += 1
                    }
                }
                // The header alone has 80 bits, and nearly every changed bit in it must be refused.
                #expect(refused > 60, "\(name)")
            }
        }
    }

    /// Each call with the response that a real TPM gave to it.
    private static func recorded(_ test: TestTPM) throws -> [(String, Call, [UInt8])] {
        let key = try test.create(TestTPM.signingTemplate())
        return try calls(test, key).map { name, call in
            let before = test.wire.exchanges.count
            try call(test.tpm)
            let response = try #require(test.wire.exchanges.dropFirst(before).last?.response)
            for handle in try test.tpm.handles(from: .transientFirst) {
                try test.tpm.execute(FlushContext(handle))
            }
            for handle in try test.tpm.handles(from: .loadedSessionFirst) {
                try test.tpm.execute(FlushContext(handle))
            }
            return (name, call, response)
        }
    }

    private static func resized(_ response: [UInt8]) -> [UInt8] {
        response[..<2] + withUnsafeBytes(of: UInt32(response.count).bigEndian) { Array($0) }
            + response[6...]
    }
}
