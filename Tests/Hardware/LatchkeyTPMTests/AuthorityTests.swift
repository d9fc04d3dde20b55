import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// The state of the presence broker in its directory and in the TPM.
@Suite(.softwareTPM)
struct AuthorityTests {
    @Test
    func `the approval key's authorization is in a separate file that only the service can read`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            _ = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            let path = directory.path(of: "authority.secret")
            let secret = try #require(FileManager.default.contents(atPath: path))
            #expect(secret.count == 32)
            #expect(
                try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
                    == 0o600)
            let state = try #require(
                FileManager.default.contents(atPath: directory.path(of: "authority.json")))
            #expect(state.firstRange(of: secret) == nil)
            #expect(state.firstRange(of: Data(secret.base64EncodedString().utf8)) == nil)
            #expect(state.firstRange(of: Data("authValue".utf8)) == nil)
        }
    }

    @Test func `the broker does not start if its authorization is missing or others can read it`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            _ = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            let path = directory.path(of: "authority.secret")
            func start() async -> KeystoreError.Code? {
                await Scene.error { () async throws(KeystoreError) in
                    _ = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
                }?.code
            }
            chmod(path, 0o640)
            #expect(await start() == .unavailable)
            // Another user could remove the files, and with them the failed fingers.
            for mode in [0o750, 0o777] as [mode_t] {
                chmod(path, 0o600)
                chmod(directory.path, mode)
                #expect(await start() == .unavailable)
                chmod(directory.path, 0o700)
            }
            let second = directory.path(of: "second")
            link(path, second)
            #expect(await start() == .unavailable)
            unlink(second)
            chmod(path, 0o600)
            #expect(await start() == nil)
            truncate(path, 31)
            #expect(await start() == .damaged)
            unlink(path)
            #expect(await start() == .damaged, "a new one would not open the key")
            unlink(directory.path(of: "authority.json"))
            #expect(await start() == nil, "a service without state starts with a new key")
        }
    }

    @Test func `all users together have a maximum number of indices`() async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let authority = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            for user in 1000..<UInt32(1000 + TPM.maximumIndices) {
                _ = try await authority.makePIN(for: user)
            }
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.makePIN(for: 5000)
            }
            #expect(error?.code == .unsupported)
            let again = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.makePIN(for: 1000)
            }
            #expect(again == nil, "a user with a PIN keeps it")
            let terms = try await authority.terms(
                for: 5000, .biometryCurrentSet, enrolmentSet: Data(repeating: 1, count: 32))
            #expect(terms.counter == nil)
        }
    }
}
