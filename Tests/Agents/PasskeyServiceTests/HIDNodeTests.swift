import Foundation
import Latchkey
import LatchkeyPasskeys
import LatchkeySimulators
import Testing

@testable import latchkey

/// The device in the kernel's list, and the checks of ‘latchkey doctor’, with files in place of
/// /sys and /proc.
struct HIDNodeTests {
    @Test func `the device is found by its numbers and the user's ID`() throws {
        let directory = try TemporaryDirectory()
        func add(_ name: String, _ lines: [String]) throws {
            let device = URL(filePath: directory.path(of: "\(name)/device"))
            try FileManager.default.createDirectory(at: device, withIntermediateDirectories: true)
            try Data(lines.map { "\($0)\n" }.joined().utf8).write(
                to: device.appending(path: "uevent"))
        }
        let ours = "HID_ID=0003:00001209:00004C4B"
        try add("hidraw0", ["HID_ID=0003:00001050:00000407", "HID_UNIQ=1000"])
        try add(
            "hidraw1", ["DRIVER=hid-generic", ours, "HID_NAME=Latchkey passkeys", "HID_UNIQ=1000"])
        try add("hidraw2", [ours, "HID_UNIQ=10000"])
        #expect(HIDNode.ofUser(1000, devices: directory.path)?.path == "/dev/hidraw1")
        #expect(HIDNode.ofUser(10000, devices: directory.path)?.path == "/dev/hidraw2")
        #expect(HIDNode.ofUser(1001, devices: directory.path) == nil)
        #expect(HIDNode.ofUser(1000, devices: directory.path(of: "absent")) == nil)
    }

    @Test func `the programs that have opened the device are named`() throws {
        let directory = try TemporaryDirectory()
        func add(_ process: String, _ name: String, opens path: String) throws {
            let descriptors = directory.path(of: "\(process)/fd")
            try FileManager.default.createDirectory(
                atPath: descriptors, withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(
                atPath: "\(descriptors)/7", withDestinationPath: path)
            try Data("\(name)\n".utf8).write(
                to: URL(filePath: directory.path(of: "\(process)/comm")))
        }
        let node = HIDNode(path: "/dev/hidraw1")
        #expect(node.openers(user: geteuid(), processes: directory.path) == nil)
        try add("100", "firefox", opens: "/dev/hidraw1")
        try add("101", "other", opens: "/dev/hidraw10")
        try add("self", "no process", opens: "/dev/hidraw1")
        let one = node.openers(user: geteuid(), processes: directory.path)
        #expect(one?.names == [100: "firefox"] && one?.isOne == true)
        try add("102", "a\u{202E}b\nc", opens: "/dev/hidraw1")
        try add("103", "firefox", opens: "/dev/hidraw1")
        let three = node.openers(user: geteuid(), processes: directory.path)
        #expect(three?.quoted == "“a\u{FFFD}b, firefox, firefox”" && three?.isOne == false)
        #expect(node.openers(user: geteuid() + 1, processes: directory.path) == nil)
    }

    private struct Machine {
        var files: Set<String> = ["relay", "device", "/dev/hidraw1"]
        var readable: Set<String> = ["relay", "/dev/hidraw1"]
        var node: HIDNode? = HIDNode(path: "/dev/hidraw1")
        var user: UInt32 = 1000

        var fault: KeystoreError?

        func check() async -> Check {
            await PasskeyDiagnostics(
                relay: "relay", program: "program", device: "device", user: user,
                node: { _ in node },
                exists: { files.contains($0) },
                isWritable: { readable.contains($0) },
                flatpakDirectories: ["/var/lib/flatpak/app", "/home/ada/flatpak/app"],
                windowFault: { fault }
            ).check()
        }
    }

    @Test func `doctor names what is missing, in the order of the fixes`() async {
        #expect(await Machine().check().state == .ok)
        #expect(await Machine(files: []).check().state == .ok)
        let stopped = await Machine(files: ["program", "device"]).check()
        #expect(stopped.state == .warning)
        #expect(stopped.advice?.contains("systemctl enable --now latchkey-uhid.socket") == true)
        #expect(await Machine(user: 0).check().state == .ok)
        #expect(await Machine(files: ["relay"]).check().advice?.contains("modprobe uhid") == true)
        #expect(
            await Machine(readable: []).check().advice?.contains("usermod -aG latchkey") == true)
        #expect(
            await Machine(node: nil).check().advice?.contains(
                "systemctl --user enable --now latchkey-passkeys") == true)
        #expect(
            await Machine(readable: ["relay"]).check().advice?.contains("udevadm trigger") == true)
        let fault = KeystoreError(code: .unavailable, reason: "no display", recovery: "Get one.")
        let blind = await Machine(fault: fault).check()
        #expect(blind.state == .warning && blind.advice == "Get one.")
        #expect(blind.finding.contains("can show no window, so it refuses logins: no display"))
        let sandboxed = await Machine(files: [
            "relay", "device", "/dev/hidraw1", "/snap/bin/firefox",
            "/home/ada/flatpak/app/com.brave.Browser",
        ]).check()
        #expect(sandboxed.state == .warning)
        #expect(
            sandboxed.finding.contains("except perhaps Brave from Flatpak and Firefox from Snap"))
    }
}
