import Foundation
import LatchkeySimulators

/// Measures the size of the program as packages install it.
enum InstalledSize {
    @concurrent static func run() async throws -> Findings {
        try await TemporaryDirectory.withDirectory { directory in
            let stripped = directory.path(of: "latchkey")
            try Program(name: "strip").run(["-o", stripped, Program.built("latchkey").name])
            let bytes =
                try FileManager.default.attributesOfItem(atPath: stripped)[.size] as? Int ?? 0
            return Findings(goals: [
                .limit("installed size of latchkey", Double(bytes) / 1e6, "MB", atMost: 15)
            ])
        }
    }
}
