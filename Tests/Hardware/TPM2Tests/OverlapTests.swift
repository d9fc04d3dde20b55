import LatchkeySimulators
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// Work of this process while the TPM executes a command.
@Suite(.softwareTPM) struct OverlapTests {
    private static let response: [UInt8] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0, 0]
    /// TPM_RC_HANDLE for parameter 1.
    private static let refusal: [UInt8] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0xcb]

    @Test func `the work is done after the command was sent and before the response is read`()
        throws
    {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        // GetRandom, 8 bytes.
        let command: [UInt8] = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x7b, 0, 8]
        var refused: TPMError?
        let response = try connection.exchange(command) {
            // A connection with an unread response refuses the next command.
            do throws(TPMError) { _ = try connection.exchange(command) } catch { refused = error }
        }
        #expect(refused?.kind == .transport(.broken))
        #expect(response.count == 20)
        #expect(try connection.exchange(command).count == 20, "the connection works afterwards")
    }

    @Test func `a command that is sent again does the work once`() throws {
        let busy: [UInt8] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x09, 0x22]
        let wire = CannedTransport(busy, Self.response)
        var count = 0
        #expect(
            try ResubmittingTransport(wire).exchange([1], meanwhile: { count += 1 })
                == Self.response)
        #expect(wire.commands == [[1], [1]])
        #expect(count == 1)
    }

    @Test func `an object is flushed with the work, and the flush's error is kept`() throws {
        for (answer, wanted) in [(Self.response, nil), (Self.refusal, ResponseCode.handle)] {
            let wire = CannedTransport(answer)
            var count = 0
            let flushed = TPM(wire).flushContext(TPMHandle(rawValue: 0x8000_0000)) { () -> Int in
                count += 1
                return count
            }
            #expect(wire.commands.count == 1)
            #expect(flushed.result == 1)
            #expect(count == 1)
            #expect(flushed.error?.responseCode?.base == wanted)
        }
    }

    @Test func `an object that is lent is flushed once, with the work on the result`() async throws
    {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            let object = try test.tpm.load(key.privatePart, key.publicArea, under: test.parent)
            let text = try test.tpm.lending(object, whileFlushing: { "\($0)" }) {
                (_) throws(TPMError) in 5
            }
            #expect(text == "5")
            #expect(test.wire.exchanges.last?.code == .flushContext)
            test.wire.tamper = { code, response in code == .flushContext ? Self.refusal : response }
            let other = try test.tpm.load(key.privatePart, key.publicArea, under: test.parent)
            var error: TPMError?
            do throws(TPMError) {
                _ = try test.tpm.lending(other, whileFlushing: { $0 }) { (_) throws(TPMError) in 5 }
            } catch let thrown {
                error = thrown
            }
            #expect(error?.command == .flushContext)
            #expect(error?.responseCode?.base == .handle)
        }
    }
}
