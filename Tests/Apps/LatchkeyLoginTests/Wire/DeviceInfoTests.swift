import Foundation
import Latchkey
import Testing

@testable import LatchkeyLogin
@testable import LatchkeyOAuth

struct DeviceInfoTests {
    private func object(_ device: DeviceInfo) throws -> [String: [String: [String: String]]] {
        let bytes = try #require(Base64URL.decode(device.formValue()))
        return try JSONDecoder().decode([String: [String: [String: String]]].self, from: bytes)
    }

    @Test func `the format is one that servers know, with a readable model`() throws {
        let system = DeviceInfo.System(
            name: "Linux", release: "6.1", version: "#1 SMP", architecture: "x86_64")
        let device = DeviceInfo(
            model: "LENOVO ThinkPad X1", hostName: "desk", application: "Latchkey",
            applicationID: "org.latchkey",
            system: system)
        let ios = try #require(try object(device)["ios"])
        #expect(
            ios["uname"] == [
                "machine": "Linux x86_64 LENOVO ThinkPad X1", "nodename": "desk", "release": "6.1",
                "sysname": "Linux", "version": "#1 SMP",
            ])
        #expect(ios["UIDevice"]?["systemName"] == "Linux")
        #expect(ios["NSBundle"]?["CFBundleDisplayName"] == "Latchkey")
    }

    @Test(arguments: ["x86_64", "arm64"])
    func `a machine without a name is not shown as a simulator`(architecture: String) throws {
        let system = DeviceInfo.System(
            name: "Linux", release: "", version: "", architecture: architecture)
        let machine = try object(
            DeviceInfo(model: "", hostName: "", application: "", applicationID: "", system: system))[
                "ios"]?["uname"]?[
                "machine"]
        #expect(machine == "Linux \(architecture)")
    }

    @Test func `this machine has a name`() throws {
        let names = try #require(try object(.current())["ios"]?["uname"])
        #expect(names["machine"]?.hasPrefix("Linux ") == true)
        #expect(names["nodename"]?.isEmpty == false)
        #expect(names["release"]?.isEmpty == false)
    }
}
