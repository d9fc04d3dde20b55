import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyServices

/// Checks the TPM's device file and its permissions. Does not use the TPM.
struct DeviceDiagnostics {
    /// The group that Latchkey's package creates for the users of the TPM.
    private static let ownGroup = "latchkey"

    private let path: String
    /// The administrator's file, if it fixes the TCTI.
    private let rule: String?

    /// nil if the TCTI is not a device.
    init?(_ settings: ProgramSettings) {
        let prefix = "device:"
        guard settings.tcti.hasPrefix(prefix) else { return nil }
        path = String(settings.tcti.dropFirst(prefix.count))
        let file = settings.values.administrators
        rule = file?.fixed[.tcti] == nil ? nil : file?.path
    }

    /// The advice to choose another TCTI, which a fixed setting forbids.
    private func choice(_ advice: String) -> String {
        rule.map { "Ask the administrator of this machine: \($0) fixes the TPM." } ?? advice
    }

    /// The problem that prevents opening the device, if any.
    func problem() -> Check? {
        guard access(path, F_OK) == 0 else {
            return .problem(
                "tpm", "There is no \(path): the kernel has found no TPM.",
                advice: rule == nil
                    ? Recovery(
                        "Enable the TPM (fTPM, PTT) in the firmware setup, or select another one.",
                        .chooseTPM
                    ).withCommands : "Enable the TPM (fTPM, PTT) in the firmware setup.",
                code: .unavailable)
        }
        return access(path, R_OK | W_OK) == 0 ? nil : refusal()
    }

    /// A warning if the device has no resource manager.
    func warning() -> Check? {
        guard let managed = managedDevice, access(managed, F_OK) == 0 else { return nil }
        return .warning(
            "tpm-device",
            "\(path) has no resource manager: objects that one program leaves loaded block other programs.",
            advice: choice("Use --tcti device:\(managed), or remove --tcti and LATCHKEY_TCTI."))
    }

    /// The same TPM through the kernel's resource manager: `/dev/tpmrm0` for `/dev/tpm0`.
    private var managedDevice: String? {
        let name = path.split(separator: "/").last ?? ""
        let number = name.dropFirst(3)
        guard name.hasPrefix("tpm"), !number.isEmpty, number.allSatisfy(\.isNumber) else {
            return nil
        }
        return path.dropLast(number.count) + "rm\(number)"
    }

    private func refusal() -> Check {
        guard isNamedLikeTPM else {
            return .problem(
                "tpm", "You have no permission to use \(path), and its name is not a TPM's.",
                advice: choice(
                    "Use --tcti device:/dev/tpmrm0, or remove --tcti and LATCHKEY_TCTI."),
                code: .unavailable)
        }
        guard let group = group() else {
            return .problem(
                "tpm", "You have no permission to use \(path): only root has.",
                advice: Self.install,
                code: .unavailable)
        }
        let name = String(cString: group.pointee.gr_name)
        if processGroups.contains(group.pointee.gr_gid) {
            return .problem(
                "tpm",
                "You are in the group \(name), but the group has no permission to use \(path).",
                advice:
                    "Apply the udev rules: sudo udevadm trigger --action=change --subsystem-match=tpmrm",
                code: .unavailable)
        }
        if isMember(of: group) {
            return .problem(
                "tpm",
                "You are in the group \(name), which may use \(path), but you joined it after this session began.",
                advice: "Log in to this machine again.", code: .unavailable)
        }
        return .problem(
            "tpm", "You have no permission to use \(path): the group \(name) has.",
            advice: name == Self.ownGroup
                ? "Join the group (sudo usermod -aG \(name) $USER), then log in to this machine again."
                : Self.install,
            code: .unavailable)
    }

    /// The advice names only this group. Other groups give more access than to the TPM: a disk's
    /// group, or Debian's `tss`, which can also write a key store.
    private static let install =
        "Install Latchkey's package, which gives the group \(ownGroup) permission, and join that group."

    /// Whether the name is `tpm0`, `tpmrm0` and so on. A path with another name may be a disk.
    private var isNamedLikeTPM: Bool {
        (path.split(separator: "/").last ?? "").wholeMatch(of: /tpm(rm)?[0-9]+/) != nil
    }

    /// The group whose members may use the TPM: the package's group, or the group of the device.
    private func group() -> UnsafeMutablePointer<group>? {
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        let id = (try? FileManager.default.attributesOfItem(atPath: target))?[.groupOwnerAccountID]
        let owner =
            (id as? Int).flatMap(gid_t.init(exactly:)) ?? (id as? UInt).flatMap(
                gid_t.init(exactly:)) ?? 0
        return getgrnam(Self.ownGroup) ?? (owner == 0 ? nil : getgrgid(owner))
    }

    private var processGroups: Set<gid_t> {
        var groups = [gid_t](repeating: 0, count: Int(max(0, getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        return Set(groups.prefix(Int(max(0, count)))).union([getegid()])
    }

    /// Whether the user's next session will be in the group.
    private func isMember(of group: UnsafeMutablePointer<group>) -> Bool {
        guard let user = getpwuid(getuid()) else { return false }
        let name = String(cString: user.pointee.pw_name)
        var member = group.pointee.gr_mem
        while let pointer = member, let text = pointer.pointee {
            if String(cString: text) == name { return true }
            member = pointer + 1
        }
        return false
    }
}
