internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// The device of a user in the kernel's list of HID devices.
package struct HIDNode: Hashable, Sendable {
    /// The socket of the relay `latchkey-uhid`, which creates the devices.
    package static let relaySocket = "/run/latchkey/uhid.sock"

    /// The path of the device node, for example `/dev/hidraw3`.
    package let path: String

    /// The bus, vendor and product numbers of the relay's devices (`HID_ID`).
    private static let identity = "HID_ID=0003:00001209:00004C4B"

    package init(path: String) { self.path = path }

    /// The device whose unique name is the user's ID, or nil.
    package static func ofUser(_ user: UInt32, devices: String = "/sys/class/hidraw") -> HIDNode? {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: devices)) ?? [] {
            guard
                let bytes = FileManager.default.contents(atPath: "\(devices)/\(name)/device/uevent")
            else { continue }
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
            if lines.contains(identity[...]), lines.contains("HID_UNIQ=\(user)") {
                return HIDNode(path: "/dev/\(name)")
            }
        }
        return nil
    }

    /// The user's processes that have opened the device; nil if none is found.
    package func openers(user: UInt32, processes: String = "/proc") -> DeviceOpeners? {
        var names: [Int32: String] = [:]
        for process in (try? FileManager.default.contentsOfDirectory(atPath: processes)) ?? [] {
            var status = stat()
            guard let id = Int32(process), stat("\(processes)/\(process)", &status) == 0,
                status.st_uid == user
            else {
                continue
            }
            let directory = "\(processes)/\(process)/fd"
            let descriptors =
                (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            let isOpener = descriptors.contains {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)"))
                    == path
            }
            guard isOpener,
                let name = FileManager.default.contents(atPath: "\(processes)/\(process)/comm")
            else {
                continue
            }
            names[id] = String(
                oneLine: String(decoding: name.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self),
                limit: 32)
        }
        return names.isEmpty ? nil : DeviceOpeners(names)
    }
}
