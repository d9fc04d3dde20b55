import Foundation
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyLocker

/// What of a session is in the memory of its process.
@Suite(.softwareTPM, .serialized)
struct MemoryTests {
    @Test func `after a lock no key of a level is in memory`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.offlineVerification = OfflineVerification() }
            let image = ProcessImage()
            for start in ["strong", "easy", "background", "offline"] {
                scene.line.isDown = start == "offline"
                switch start {
                case "background": _ = try await program.locker.backgroundAccess()
                case "strong": _ = try await program.locker.startAuthSession(options: .init(requiredLevel: .strong))
                default: _ = try await program.locker.startAuthSession()
                }
                for (level, text) in program.sealAll() {
                    #expect(try program.locker.decrypt(encryptedSecret: text) == "s3cret", "\(level)")
                }
                let needles = ProtectionLevel.allCases.filter { $0 != .base }.compactMap { level in
                    program.locker.keyring[level].map { Needle($0.secret) }
                }
                #expect(!needles.isEmpty)
                for needle in needles { #expect(image.count(of: needle) > 0) }
                _ = try await program.locker.endAuthSession(mode: .lock)
                for needle in needles { #expect(image.count(of: needle) == 0, "\(start)") }
            }
        }
    }
}

/// A secret to look for, kept as its complement so that it is not found in itself.
private struct Needle {
    let complement: [UInt8]

    init(_ secret: SecretBytes) {
        complement = secret.withUnsafeBytes { $0.map { ~$0 } }
    }
}

/// The writable memory of this process, read as a debugger reads it (proc(5), `/proc/PID/mem`).
private struct ProcessImage {
    private static let pieceBytes = 1 << 20

    /// How often the secret is in memory.
    func count(of needle: Needle) -> Int {
        let length = needle.complement.count
        // The needle itself is put together here, beside the piece that is looked at; this place is not looked at.
        let room = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.pieceBytes + 2 * length, alignment: 4096)
        defer {
            room.initializeMemory(as: UInt8.self, repeating: 0)
            room.deallocate()
        }
        guard let base = room.baseAddress else { return 0 }
        for (index, byte) in needle.complement.enumerated() { room[index] = ~byte }
        // A byte to look for first, of which memory is not full.
        guard let rare = room[..<length].firstIndex(where: { $0 != 0 && $0 != 0xFF }) else { return 0 }
        let own = UInt(bitPattern: base)..<UInt(bitPattern: base) + UInt(room.count)
        let memory = open("/proc/self/mem", O_RDONLY)
        defer { close(memory) }
        var found = 0
        for region in Self.regions() {
            var address = region.lowerBound
            while address < region.upperBound {
                let wanted = min(Self.pieceBytes + length - 1, Int(region.upperBound - address))
                let piece = base + length
                let got = pread(memory, piece, wanted, off_t(address))
                guard got >= length else { break }
                var offset = 0
                while offset + length <= got,
                    let byte = memchr(piece + offset + rare, Int32(room[rare]), got - length - offset + 1)
                {
                    let start = UnsafeMutableRawPointer(byte) - rare
                    let place = start - piece
                    offset = place + 1
                    if place < Self.pieceBytes, !own.contains(address + UInt(place)), memcmp(start, base, length) == 0 {
                        found += 1
                    }
                }
                address += UInt(Self.pieceBytes)
            }
        }
        return found
    }

    private static func regions() -> [Range<UInt>] {
        guard let text = try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8) else { return [] }
        return text.split(separator: "\n").compactMap { line in
            let columns = line.split(separator: " ")
            let ends = columns[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            guard columns[1].hasPrefix("rw"), ends.count == 2 else { return nil }
            return ends[0]..<ends[1]
        }
    }
}
