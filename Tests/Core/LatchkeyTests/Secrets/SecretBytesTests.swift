import Foundation
import Latchkey
import Testing

struct SecretBytesTests {
    @Test func `bytes come back as they went in`() {
        let secret = SecretBytes([1, 2, 3])
        #expect(secret.count == 3)
        #expect(secret.withUnsafeBytes { Array($0) } == [1, 2, 3])
        #expect(SecretBytes([]).isEmpty)
        #expect(SecretBytes([1, 2, 3]) == secret)
        #expect(SecretBytes([1, 2, 4]) != secret)
        #expect(SecretBytes([1, 2]) != secret)
    }

    @Test func `more than a page works`() {
        let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0) }
        #expect(SecretBytes(bytes).withUnsafeBytes { Array($0) } == bytes)
    }

    @Test func `a secret prints only its length`() {
        let secret = SecretBytes("hunter2".utf8)
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), dumped] {
            #expect(!text.contains("hunter2"))
        }
        #expect("\(secret)" == "‹secret, 7 bytes›")
    }

    @Test func `random secrets differ`() {
        #expect(SecretBytes.random(count: 32) != SecretBytes.random(count: 32))
    }
}
