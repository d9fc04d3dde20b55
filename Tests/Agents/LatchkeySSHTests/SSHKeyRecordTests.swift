import Crypto
import Foundation
import Latchkey
import LatchkeySSH
import Testing

struct SSHKeyRecordTests {
    @Test func `a label that another program wrote is one visible line for the agent's clients`()
        throws
    {
        let key = HardwareKey(
            id: .random(), backend: "test", policy: .pin,
            assurance: AssuranceLevel(root: .swtpm, presence: .pin),
            publicKey: try PublicKey(
                x963Representation: P256.Signing.PrivateKey().publicKey.x963Representation),
            label: "a\n\u{1B}[2J\u{202E}b" + String(repeating: "c", count: 1000),
            createdAt: Date(), blob: Data())
        let name = SSHKeyRecord(key).name
        #expect(name.hasPrefix("a\u{FFFD}\u{FFFD}[2J\u{FFFD}bc"))
        #expect(name.unicodeScalars.count == 256)
    }
}
