import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// What a TPM reports about itself decides only that a key is not called one in hardware.
@Suite(.softwareTPM) struct TPMIdentityTests {
    struct Report: CustomTestStringConvertible {
        let manufacturer: String
        let model: String
        let kind: TPMIdentity.Kind

        var testDescription: String { "\(manufacturer) \(model)" }

        static let all = [
            Report(manufacturer: "IBM", model: "SW   TPM", kind: .software),
            Report(manufacturer: "CROS", model: "xCG fTPM", kind: .other),
            Report(manufacturer: "MSFT", model: "xCG fTPM", kind: .microsoft),
            Report(manufacturer: "GOOG", model: "vTPM", kind: .virtual("Google Cloud")),
            Report(manufacturer: "AMZN", model: "NitroTPM", kind: .virtual("Amazon EC2")),
            Report(manufacturer: "VMW", model: "VMware TPM", kind: .virtual("VMware")),
            Report(manufacturer: "IFX", model: "SLB9670", kind: .other),
            Report(manufacturer: "STM", model: "SW   TPM", kind: .other),
            Report(manufacturer: "IBM", model: "xCG fTPM", kind: .other),
            Report(manufacturer: "INTC", model: "Intel", kind: .other),
            Report(manufacturer: "AMD", model: "AMD", kind: .other),
        ]
    }

    /// Replaces the manufacturer and the vendor's strings in responses (TPM 2.0 Part 2 section
    /// 6.13).
    private static func reported(_ report: Report, in response: [UInt8]) -> [UInt8] {
        func words(_ text: String, _ count: Int) -> [UInt8] {
            Array((Array(text.utf8) + [UInt8](repeating: 0, count: 4 * count)).prefix(4 * count))
        }
        let texts = words(report.manufacturer, 1) + words(report.model, 4)
        var response = response
        for index in 0..<5 {
            let property: [UInt8] = [0, 0, 1, UInt8(5 + index)]
            for start in response.indices.dropLast(7)
            where start >= 19 && (start - 19) % 8 == 0
                && Array(response[start..<start + 4]) == property
            {
                response.replaceSubrange(
                    start + 4..<start + 8, with: texts[4 * index..<4 * index + 4])
            }
        }
        return response
    }

    @Test(arguments: Report.all)
    func `only swtpm's own manufacturer and model make a key simulated`(
        report: Report
    ) async throws {
        let wire = Wire()
        wire.tamper { code, response in
            code == .getCapability ? Self.reported(report, in: response) : response
        }
        let keystore = wire.keystore(try SoftwareTPM.current)
        let root: AssuranceLevel.Root = report.kind == .software ? .swtpm : .tpm
        #expect(try await keystore.capabilities().root == root)
        let diagnosis = try await keystore.diagnose()
        #expect(diagnosis.identity.kind == report.kind, "\(diagnosis.identity)")
        #expect(diagnosis.identity.manufacturer == report.manufacturer)
        let key = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: Scene.prompt), authorizedBy: Scene.nobody)
        #expect(key.assurance.root == root)
    }
}
