import Foundation
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

struct TransportTests {
    private static func response(_ code: UInt32) -> [UInt8] {
        [0x80, 0x01, 0, 0, 0, 10] + withUnsafeBytes(of: code.bigEndian) { Array($0) }
    }

    @Test(arguments: [0x922, 0x908, 0x90a] as [UInt32])
    func `a command is sent again when the TPM requests it`(_ code: UInt32) throws {
        let wire = CannedTransport(Self.response(code), Self.response(code), Self.response(0))
        #expect(try ResubmittingTransport(wire).exchange([1, 2, 3]) == Self.response(0))
        #expect(wire.commands == [[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    }

    @Test func `a command is not sent again without a limit`() throws {
        let wire = CannedTransport(Self.response(0x922))
        #expect(try ResubmittingTransport(wire).exchange([1]) == Self.response(0x922))
        #expect(wire.commands.count == ResubmittingTransport.maximumSubmissions)
    }

    @Test func `a command is not sent again after other errors`() throws {
        let wire = CannedTransport(Self.response(0x98e), Self.response(0))
        #expect(try ResubmittingTransport(wire).exchange([1]) == Self.response(0x98e))
        #expect(wire.commands.count == 1)
    }

    @Test(arguments: [0x922, 0x90a] as [UInt32])
    func `a command that proves a secret is sent again once`(_ code: UInt32) throws {
        let wire = CannedTransport(Self.response(code))
        let transport = ResubmittingTransport(wire)
        #expect(try transport.exchange(proof: [1]) == Self.response(code))
        #expect(wire.commands == [[1], [1]])
        #expect(try transport.exchange(proof: [2]) == Self.response(code))
        #expect(wire.commands == [[1], [1], [2]], "once over a connection")
    }

    @Test func `a command that proves a secret is not sent again if the TPM may have started it`()
        throws
    {
        let wire = CannedTransport(Self.response(0x908), Self.response(0))
        #expect(try ResubmittingTransport(wire).exchange(proof: [1]) == Self.response(0x908))
        #expect(wire.commands.count == 1)
    }

    @Test func `an error names the missing device`() {
        do {
            _ = try TCTIConnection("device:/nowhere/tpm0")
            Issue.record("there is no such device")
        } catch {
            #expect(error.kind == .transport(.absent))
            #expect(error.reason.contains("/nowhere/tpm0"))
        }
    }

    /// tpm2-tss would write commands into it.
    @Test func `a file is refused as a TPM, and is not changed`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "file")
            try "what it says".write(toFile: path, atomically: false, encoding: .utf8)
            #expect(throws: TPMError(.transport(.absent), reason: "")) {
                try TCTIConnection("device:\(path)").exchange([UInt8](repeating: 0x80, count: 12))
            }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "what it says")
        }
    }

    @Test(arguments: ["", "nonsense:x", "swtpm:path=/nowhere/sock"])
    func `an address that cannot be opened is an error`(_ configuration: String) {
        #expect(throws: TPMError(.transport(.silent), reason: "")) {
            _ = try TCTIConnection(configuration)
        }
    }

    @Test(.softwareTPM) func `a TPM that disconnects causes an error without a wait`() async throws
    {
        let software = try SoftwareTPM.current
        let connection = try TCTIConnection(software.tcti)
        let tpm = TPM(connection)
        _ = try tpm.execute(ReadClock())
        await software.cutPower()
        #expect(throws: TPMError(.transport(.broken), reason: "")) {
            _ = try tpm.execute(ReadClock())
        }
    }

    /// Why a software TPM does not answer.
    enum Silence: CaseIterable { case held, stopped }

    @Test(.softwareTPM, arguments: Silence.allCases)
    func `a software TPM that does not answer is an error at the time limit`(
        _ silence: Silence
    ) async throws {
        let software = try SoftwareTPM.current
        let path = String(software.tcti.trimmingPrefix("swtpm:path="))
        let process = try #require(await software.processIdentifier)
        let address = try #require(UNIXSocketAddress(path: path))
        let other = try silence == .held ? address.connectedSocket() : -1
        if silence == .stopped { #expect(kill(process, SIGSTOP) == 0) }
        defer {
            if silence == .stopped { kill(process, SIGCONT) } else { close(other) }
        }
        let error = await Task.detached { () -> TPMError? in
            do throws(TPMError) {
                let connection = try TCTIConnection(software.tcti, limit: .seconds(1))
                defer { connection.close() }
                _ = try TPM(connection).execute(ReadClock())
                return nil
            } catch {
                return error
            }
        }.value
        #expect(error?.kind == .transport(.silent))
        #expect(error?.reason.contains("another program holds its only connection") == true)
    }

    @Test(.softwareTPM) func `a closed connection is reported`() throws {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        connection.close()
        connection.close()
        #expect(throws: TPMError(.transport(.broken), reason: "")) {
            _ = try TPM(connection).execute(ReadClock())
        }
    }
}
