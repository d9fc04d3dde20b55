import Foundation
import Testing

/// The restart rule of all services: a service that ends with a failure is started again without a
/// limit, except after causes that a restart cannot repair. A TPM, bus or relay that is absent
/// (exit status 7) can come back.
struct UnitFileTests {
    private static let packaging = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "packaging")

    @Test func `services that restart have no limit, a pause, and final causes`() throws {
        var count = 0
        for folder in ["systemd", "systemd-user"] {
            let directory = Self.packaging.appending(path: folder)
            for name in try FileManager.default.contentsOfDirectory(atPath: directory.path)
            where name.hasSuffix(".service") {
                let text = try String(contentsOf: directory.appending(path: name), encoding: .utf8)
                let lines = text.split(separator: "\n").map(String.init)
                func value(_ key: String) -> String? {
                    lines.first { $0.hasPrefix("\(key)=") }.map {
                        String($0.dropFirst(key.count + 1))
                    }
                }
                guard let restart = value("Restart") else { continue }
                count += 1
                #expect(restart == "on-failure", "\(name)")
                #expect(value("StartLimitIntervalSec") == "0", "\(name)")
                #expect(Int(value("RestartSec") ?? "").map { $0 >= 2 } == true, "\(name)")
                let final = (value("RestartPreventExitStatus") ?? "").split(separator: " ")
                #expect(!final.isEmpty && !final.contains("7"), "\(name)")
            }
        }
        #expect(count == 3)
    }
}
