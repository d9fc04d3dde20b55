import Glibc
import Latchkey

/// Looks at the TPM's device as the kernel and the administrator show it; the TPM itself is not asked.
struct DeviceExamination {
    /// The group that Latchkey's package makes for the TPM's users.
    private static let ownGroup = "latchkey"

    private let path: String

    /// nil where the TPM is not reached by a device.
    init?(tcti: String) {
        let prefix = "device:"
        guard tcti.hasPrefix(prefix) else { return nil }
        path = String(tcti.dropFirst(prefix.count))
    }

    /// What keeps the device from being opened, where something does.
    func problem() -> Check? {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return .problem(
                "tpm", "There is no \(path): the kernel has found no TPM.",
                "Switch the TPM (fTPM, PTT) on in the firmware's setup, or name another one with --tcti or LATCHKEY_TCTI.",
                .unavailable)
        }
        return access(path, R_OK | W_OK) == 0 ? nil : refusal(status)
    }

    /// That the device is the one on which programs are in each other's way, where it is.
    func warning() -> Check? {
        guard let managed = managedDevice, access(managed, F_OK) == 0 else { return nil }
        return .warning(
            "tpm-device", "\(path) has no resource manager: what one program leaves loaded, others have no room for.",
            "Name --tcti device:\(managed), or nothing at all.")
    }

    /// The same TPM through the kernel's resource manager: `/dev/tpmrm0` for `/dev/tpm0`.
    private var managedDevice: String? {
        let name = path.split(separator: "/").last ?? ""
        let number = name.dropFirst(3)
        guard name.hasPrefix("tpm"), !number.isEmpty, number.allSatisfy(\.isNumber) else { return nil }
        return path.dropLast(number.count) + "rm\(number)"
    }

    private func refusal(_ status: stat) -> Check {
        guard isNamedLikeTPM else {
            return .problem(
                "tpm", "You have no right to use \(path), which is not named as a TPM is.",
                "Name /dev/tpmrm0 with --tcti, or nothing at all.", .unavailable)
        }
        guard let group = group(of: status) else {
            return .problem(
                "tpm", "You have no right to use \(path), which is root's alone.", Self.install, .unavailable)
        }
        let name = String(cString: group.pointee.gr_name)
        if processGroups.contains(group.pointee.gr_gid) {
            return .problem(
                "tpm", "You are in the group \(name), and it has no right to use \(path).",
                "Have udev give it: sudo udevadm trigger --action=change --subsystem-match=tpmrm", .unavailable)
        }
        if isMember(of: group) {
            return .problem(
                "tpm", "You are in the group \(name), which may use \(path), but were not when this session began.",
                "Log in to this machine again.", .unavailable)
        }
        return .problem(
            "tpm", "You have no right to use \(path), which is for the group \(name).",
            name == Self.ownGroup
                ? "Become a member (sudo usermod -aG \(name) $USER), then log in to this machine again." : Self.install,
            .unavailable)
    }

    /// Nobody is to join a group that has more than the TPM: a disk's, or Debian's `tss`, which writes a key store too.
    private static let install =
        "Install Latchkey's package, which gives it to the group \(ownGroup), and become a member of that."

    /// `tpm0`, `tpmrm0` and so on: what else is named as the device may be a disk.
    private var isNamedLikeTPM: Bool {
        (path.split(separator: "/").last ?? "").wholeMatch(of: /tpm(rm)?[0-9]+/) != nil
    }

    /// The group whose members may use the TPM: the package's, or the device's own.
    private func group(of status: stat) -> UnsafeMutablePointer<group>? {
        getgrnam(Self.ownGroup) ?? (status.st_gid == 0 ? nil : getgrgid(status.st_gid))
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
