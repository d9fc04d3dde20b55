import FoundationEssentials
import Synchronization
import VirtualSmartCard

/// A clock that the test sets, and random bytes that are always 5A.
final class TestEnvironment: Sendable {
    private let time = Mutex(Date(timeIntervalSinceReferenceDate: 800_000_000))

    var cardEnvironment: CardEnvironment {
        CardEnvironment(
            now: { self.time.withLock { $0 } },
            randomBytes: { [UInt8](repeating: Self.randomByte, count: $0) })
    }

    static let randomByte: UInt8 = 0x5A

    func advance(by seconds: Double) {
        time.withLock { $0.addTimeInterval(seconds) }
    }

    /// The card's challenge under the factory's management key, as `openssl enc` computes it.
    static func encryptedChallenge(_ algorithm: ManagementKeyAlgorithm) -> [UInt8] {
        switch algorithm {
        case .tripleDES: bytes("e4706e76ec5e6312")
        case .aes128: bytes("b5f7e13c2207a132a81a437b6a70bf79")
        case .aes192: bytes("979cdead05d6c96cd88ffef1b0a72f7a")
        case .aes256: bytes("4795510028c18b9e4534744cbe418a03")
        }
    }
}
