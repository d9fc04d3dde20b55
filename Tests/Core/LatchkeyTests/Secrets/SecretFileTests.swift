import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import Latchkey

@Suite struct SecretFileTests {
    @Test(.enabled(if: geteuid() == 0, "giving a file away takes root"))
    func
        `only a file in the directory of credentials can have the mode of a credential of systemd`()
        throws
    {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let path = directory.path(of: "signing-key")
        try #require(FileManager.default.createFile(atPath: path, contents: Data(count: 32)))
        try #require(chown(path, 0, 0) == 0 && chmod(path, 0o440) == 0)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        func reason(_ path: String, _ credentials: String?) -> String? {
            let refusal = #expect(throws: SecretFile.Refusal.self) {
                try SecretFile.status(of: descriptor, openedAs: path, credentials: credentials)
            }
            return refusal?.reason
        }
        _ = try SecretFile.status(of: descriptor, openedAs: path, credentials: directory.path)
        let cause = "its group or others have rights to it"
        #expect(reason(path, nil) == cause)
        #expect(reason(path, "") == cause)
        #expect(reason(path, directory.path + "/signing") == cause)
        #expect(reason(directory.path + "/../x/signing-key", directory.path) == cause)
        try #require(chmod(path, 0o444) == 0)
        #expect(reason(path, directory.path) == cause)
    }
}
