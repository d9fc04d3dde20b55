import Foundation
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyLocker

/// The secrets of a session in the memory of its process.
@Suite(.softwareTPM, .serialized)
struct MemoryTests {
    /// With a preloaded `explicit_bzero` that does nothing this test fails, so it does test the
    /// clearing.
    @Test func `after a lock no key of a level is in memory`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.offlineVerification = OfflineVerification() }
            for start in ["strong", "easy", "background", "offline"] {
                scene.line.isDown = start == "offline"
                switch start {
                case "background": _ = try await program.locker.backgroundAccess()
                case "strong":
                    _ = try await program.locker.startAuthSession(
                        options: .init(requiredLevel: .strong))
                default: _ = try await program.locker.startAuthSession()
                }
                for (level, text) in program.sealAll() {
                    #expect(
                        try program.locker.decrypt(encryptedSecret: text) == "s3cret", "\(level)")
                }
                let needles = ProtectionLevel.allCases.filter { $0 != .base }.compactMap { level in
                    program.locker.keyring[level].map { Needle($0.secret) }
                }
                #expect(!needles.isEmpty)
                try ProcessImage.frozen { image in
                    for needle in needles { #expect(image.count(of: needle) > 0, "\(start)") }
                }
                _ = try await program.locker.endAuthSession(mode: .lock)
                try ProcessImage.frozen { image in
                    for needle in needles { #expect(image.count(of: needle) == 0, "\(start)") }
                }
            }
        }
    }
}

/// A secret to search for, stored as its complement so that the search does not find it here.
private struct Needle {
    let complement: [UInt8]

    init(_ secret: SecretBytes) {
        complement = secret.withUnsafeBytes { $0.map { ~$0 } }
    }
}

/// The writable memory of this process, read like a debugger does (proc(5), `/proc/PID/mem`).
private struct ProcessImage {
    private static let pieceBytes = 1 << 20
    private static let pageBytes = 1 << 12

    /// A stopped copy of this process.
    private let process: pid_t

    /// Passes the image to `body`. Other tests continue to run, but not in the image.
    static func frozen(_ body: (ProcessImage) throws -> Void) throws {
        // Swift does not offer fork(2), because a copy may call almost nothing. This copy only
        // calls pause(2).
        let symbol = try #require(dlsym(nil, "fork"))
        let process = unsafeBitCast(symbol, to: (@convention(c) () -> pid_t).self)()
        if process == 0 { while true { pause() } }
        try #require(process > 0)
        defer {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        try body(ProcessImage(process: process))
    }

    /// How often the secret is in memory.
    func count(of needle: Needle) -> Int {
        let length = needle.complement.count
        // The search text is built here, outside the image.
        let room = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.pieceBytes + 2 * length, alignment: 4096)
        defer {
            room.initializeMemory(as: UInt8.self, repeating: 0)
            room.deallocate()
        }
        guard let base = room.baseAddress else { return 0 }
        for (index, byte) in needle.complement.enumerated() { room[index] = ~byte }
        // A rare byte, for a fast first search.
        guard let rare = room[..<length].firstIndex(where: { $0 != 0 && $0 != 0xFF }) else {
            return 0
        }
        let memory = open("/proc/\(process)/mem", O_RDONLY)
        defer { close(memory) }
        var found = 0
        for region in regions() {
            var address = region.lowerBound
            while address < region.upperBound {
                let wanted = min(Self.pieceBytes + length - 1, Int(region.upperBound - address))
                let piece = base + length
                let got = pread(memory, piece, wanted, off_t(address))
                // Pages that can't be read, or no longer exist, are skipped.
                defer {
                    address +=
                        got == wanted ? UInt(Self.pieceBytes) : UInt(max(got, Self.pageBytes))
                }
                guard got >= length else { continue }
                var offset = 0
                while offset + length <= got,
                    let byte = memchr(
                        piece + offset + rare, Int32(room[rare]), got - length - offset + 1)
                {
                    let start = UnsafeMutableRawPointer(byte) - rare
                    let place = start - piece
                    offset = place + 1
                    if place < Self.pieceBytes, memcmp(start, base, length) == 0 {
                        found += 1
                    }
                }
            }
        }
        return found
    }

    private func regions() -> [Range<UInt>] {
        String(decoding: Self.contents(of: "/proc/\(process)/maps"), as: UTF8.self).split(
            separator: "\n"
        ).compactMap {
            line in
            let columns = line.split(separator: " ")
            let ends = columns[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            guard columns[1].hasPrefix("rw"), ends.count == 2 else { return nil }
            return ends[0]..<ends[1]
        }
    }

    /// A file of the kernel: reads return any length, and the size is not known in advance.
    private static func contents(of path: String) -> [UInt8] {
        let file = open(path, O_RDONLY)
        defer { close(file) }
        var contents: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let got = read(file, &piece, piece.count)
            guard got > 0 else { return contents }
            contents += piece[..<got]
        }
    }
}
