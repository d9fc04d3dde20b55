import LatchkeySimulators
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct `The ESAPI oracle` {
    @Test func `creates a key and signs with it, so that the tests can rely on ESAPI`() async throws
    {
        let signature = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let storage = try esys.createPrimary(OracleTemplates.storage)
            let session = try esys.startSession(.hmac, saltKey: storage)
            let key = try esys.create(
                under: storage, authValue: Array("1234".utf8), template: OracleTemplates.signing,
                session: session)
            let handle = try esys.load(key, under: storage)
            try esys.setAuthValue(Array("1234".utf8), of: handle)
            return try esys.sign([UInt8](repeating: 7, count: 32), with: handle, session: session).r
        }
        #expect(signature.count > 16)
    }

    @Test func `refuses a wrong authorization value`() async throws {
        let error = await #expect(throws: ESAPI.Failure.self) {
            try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
                let storage = try esys.createPrimary(OracleTemplates.storage)
                let session = try esys.startSession(.hmac, saltKey: storage)
                let key = try esys.create(
                    under: storage, authValue: Array("1234".utf8),
                    template: OracleTemplates.signing,
                    session: session)
                let handle = try esys.load(key, under: storage)
                try esys.setAuthValue(Array("1235".utf8), of: handle)
                _ = try esys.sign([UInt8](repeating: 7, count: 32), with: handle, session: session)
            }
        }
        // TPM_RC_AUTH_FAIL, session 1.
        #expect(error?.code == 0x98E)
    }
}
