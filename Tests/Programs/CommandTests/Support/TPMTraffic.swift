import FoundationEssentials
import LatchkeySimulators
import Testing

/// The traffic with a TPM, recorded by the `pcap` TCTI of tpm2-tss.
struct TPMTraffic {
    /// All bytes, as recorded.
    let bytes: [UInt8]
    /// The command codes (TPM 2.0 Part 2 section 6.5.2), in order.
    let commands: [UInt32]

    static let sign: UInt32 = 0x15D
    static let create: UInt32 = 0x153
    static let flushContext: UInt32 = 0x165

    /// Runs the tool on `machine` with its traffic recorded.
    static func recording(
        _ machine: Machine, _ arguments: [String], pins: [String]? = nil
    ) async throws -> (outcome: Outcome, traffic: TPMTraffic) {
        let path = machine.directory.path(of: "traffic-\(UInt64.random(in: 0 ... .max)).pcap")
        let tcti = try #require(machine.environment["LATCHKEY_TCTI"])
        let outcome = try await machine.run(
            arguments, pins: pins, extra: ["LATCHKEY_TCTI": "pcap:\(tcti)", "TCTI_PCAP_FILE": path])
        return (outcome, TPMTraffic((try? Data(contentsOf: URL(filePath: path))) ?? Data()))
    }

    /// Reads a pcapng file of raw IPv4 packets (draft-ietf-opsawg-pcapng section 4.3).
    init(_ file: Data) {
        bytes = Array(file)
        var commands: [UInt32] = []
        var block = 0
        while block + 28 <= bytes.count {
            let length = Int(Self.little(bytes[block + 4..<block + 8]))
            guard length >= 12, block + length <= bytes.count else { break }
            let packet = block + 28
            // 20 bytes of IPv4, 20 of TCP; commands go to port 2321.
            if Self.little(bytes[block..<block + 4]) == 6, packet + 50 <= bytes.count,
                Self.big(bytes[packet + 22..<packet + 24]) == 2321
            {
                commands.append(Self.big(bytes[packet + 46..<packet + 50]))
            }
            block += length
        }
        self.commands = commands
    }

    func contains(_ secret: [UInt8]) -> Bool {
        bytes.indices.contains { bytes[$0...].starts(with: secret) }
    }

    private static func big(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }
    private static func little(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        big(ArraySlice(bytes.reversed()))
    }
}
