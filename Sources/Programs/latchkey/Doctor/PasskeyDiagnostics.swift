import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPasskeys
import LatchkeyPresence
import LatchkeyServices

/// Checks whether browsers can use this user's passkeys: the relay, its device, the user's service,
/// its windows, and programs in sandboxes.
struct PasskeyDiagnostics {
    private static let name = "passkeys"
    /// Browsers from Flatpak, whose sandbox has no HID devices by default.
    private static let flatpaks = [
        "org.mozilla.firefox": "Firefox", "org.chromium.Chromium": "Chromium",
        "com.google.Chrome": "Chrome", "com.brave.Browser": "Brave",
        "com.microsoft.Edge": "Edge",
    ]
    /// Browsers from Snap, which get the device with the udev rule of the package. Not tested.
    private static let snaps = ["firefox": "Firefox", "chromium": "Chromium", "brave": "Brave"]

    var relay = HIDNode.relaySocket
    /// The relay's program, which the package installs.
    var program = "/usr/libexec/latchkey-uhid"
    var device = "/dev/uhid"
    var user = geteuid()
    var node: (UInt32) -> HIDNode? = { HIDNode.ofUser($0) }
    var exists: (String) -> Bool = { access($0, F_OK) == 0 }
    var isWritable: (String) -> Bool = { access($0, R_OK | W_OK) == 0 }
    /// The directories of Flatpak's programs: of all users, and of this one.
    var flatpakDirectories = [
        "/var/lib/flatpak/app", "\(Self.dataDirectory)/flatpak/app",
    ]
    /// The reason why the service can show no window in this session; nil if it can, or without a
    /// display.
    var windowFault: () async -> KeystoreError? = { await Self.windowFault() }

    func check() async -> Check {
        guard exists(relay) || exists(program) else {
            return .ok(
                Self.name, "Passkeys for browsers are not installed (package latchkey-passkeys).")
        }
        guard user != 0 else { return .ok(Self.name, "Root has no passkeys for browsers.") }
        guard exists(relay) else {
            return warning(
                "The relay of passkeys has no socket, so browsers see no passkeys of this machine.",
                "Start it: sudo systemctl enable --now latchkey-uhid.socket")
        }
        guard exists(device) else {
            return warning("The kernel has no \(device).", "Load its module: sudo modprobe uhid")
        }
        guard isWritable(relay) else {
            return warning(
                "You have no permission to use the relay of passkeys.",
                "Join the group latchkey (sudo usermod -aG latchkey $USER), then log in to this machine again."
            )
        }
        guard let node = node(user) else {
            return warning(
                "Your passkey service does not run, so browsers see no passkeys of this machine.",
                "Start it in a graphical session: systemctl --user enable --now latchkey-passkeys.service"
            )
        }
        guard isWritable(node.path) else {
            return warning(
                "You have no permission to use \(node.path), the device of your passkeys.",
                "Apply the udev rules: sudo udevadm trigger --action=add --subsystem-match=hidraw")
        }
        if let fault = await windowFault() {
            return warning(
                "The passkey service can show no window, so it refuses logins: \(fault.reason).",
                fault.advice)
        }
        let hidden = hiddenBrowsers()
        guard hidden.isEmpty else {
            return warning(
                "Browsers can use your passkeys through \(node.path), except perhaps "
                    + "\(hidden.joined(separator: " and ")), whose sandbox hides HID devices.",
                "Use a browser of your distribution, or give the Flatpak access: flatpak override --user --device=all APP"
            )
        }
        return .ok(Self.name, "Browsers can use your passkeys through \(node.path).")
    }

    private static var dataDirectory: String {
        let environment = ProcessInfo.processInfo.environment
        return environment["XDG_DATA_HOME"] ?? "\(environment["HOME"] ?? "")/.local/share"
    }

    private func hiddenBrowsers() -> [String] {
        let flatpaks = Self.flatpaks.filter { id, _ in
            flatpakDirectories.contains { exists("\($0)/\(id)") }
        }
        let snaps = Self.snaps.filter { exists("/snap/bin/\($0.key)") }
        return flatpaks.values.map { "\($0) from Flatpak" }.sorted()
            + snaps.values.map { "\($0) from Snap" }.sorted()
    }

    /// The service has no terminal.
    private static func windowFault() async -> KeystoreError? {
        var environment = ProcessInfo.processInfo.environment
        environment["GPG_TTY"] = nil
        guard environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil else {
            return nil
        }
        do throws(KeystoreError) {
            try await PinentryChoice(environment: environment, hasTerminal: false).check()
            return nil
        } catch {
            return error
        }
    }

    private func warning(_ finding: String, _ advice: String) -> Check {
        .warning(Self.name, finding, advice: advice)
    }
}
