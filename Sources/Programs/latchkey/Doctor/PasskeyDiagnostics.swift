import Glibc
import Latchkey
import LatchkeyPasskeys

/// Checks whether browsers can use this user's passkeys: the relay, its device, the user's service,
/// and programs in sandboxes.
struct PasskeyDiagnostics {
    private static let name = "passkeys"
    /// Browsers from Flatpak and Snap, whose sandbox has no HID devices.
    private static let sandboxed = [
        "/var/lib/flatpak/app/org.mozilla.firefox": "Firefox from Flatpak",
        "/var/lib/flatpak/app/org.chromium.Chromium": "Chromium from Flatpak",
        "/var/lib/flatpak/app/com.google.Chrome": "Chrome from Flatpak",
        "/snap/bin/firefox": "Firefox from Snap",
        "/snap/bin/chromium": "Chromium from Snap",
    ]

    var relay = HIDNode.relaySocket
    var device = "/dev/uhid"
    var user = geteuid()
    var node: (UInt32) -> HIDNode? = { HIDNode.ofUser($0) }
    var exists: (String) -> Bool = { access($0, F_OK) == 0 }
    var isWritable: (String) -> Bool = { access($0, R_OK | W_OK) == 0 }

    func check() -> Check {
        guard exists(relay) else {
            return .ok(
                Self.name, "Passkeys for browsers are not installed (package latchkey-passkeys).")
        }
        guard user != 0 else { return .ok(Self.name, "Root has no passkeys for browsers.") }
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
        let hidden = Self.sandboxed.filter { exists($0.key) }.values.sorted()
        guard hidden.isEmpty else {
            return warning(
                "Browsers can use your passkeys through \(node.path), except \(hidden.joined(separator: " and ")): its "
                    + "sandbox has no HID devices.",
                "Use a browser of your distribution, or give the Flatpak access: flatpak override --user --device=all APP"
            )
        }
        return .ok(Self.name, "Browsers can use your passkeys through \(node.path).")
    }

    private func warning(_ finding: String, _ advice: String) -> Check {
        .warning(Self.name, finding, advice: advice)
    }
}
