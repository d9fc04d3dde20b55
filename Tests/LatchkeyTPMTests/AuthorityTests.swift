import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// What the presence broker keeps, in its directory and in the TPM.
@Suite(.softwareTPM)
struct AuthorityTests {
    @Test func `all users together have so many indices, and no more`() async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let authority = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            for user in 1000..<UInt32(1000 + TPM.maximumIndices) { _ = try await authority.makePIN(for: user) }
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.makePIN(for: 5000)
            }
            #expect(error?.code == .unsupported)
            let again = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.makePIN(for: 1000)
            }
            #expect(again == nil, "who has one already gets it")
            let terms = try await authority.terms(
                for: 5000, .biometryCurrentSet, enrolmentSet: Data(repeating: 1, count: 32))
            #expect(terms.counter == nil)
        }
    }
}
