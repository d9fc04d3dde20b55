import FoundationEssentials
import Glibc
import Latchkey
import SystemPackage

/// The device of a user in the kernel's list of HID devices.
struct HIDNode: Hashable, Sendable {
    /// `/dev/hidraw3`.
    let path: String

    /// The bus, vendor and product numbers of the relay's devices (`HID_ID`).
    private static let identity = "HID_ID=0003:00001209:00004C4B"

    /// The device whose unique name is the user's ID, or nil.
    static func ofUser(_ user: UInt32, devices: String = "/sys/class/hidraw") -> HIDNode? {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: devices)) ?? [] {
            guard let bytes = FileManager.default.contents(atPath: "\(devices)/\(name)/device/uevent") else { continue }
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
            if lines.contains(identity[...]), lines.contains("HID_UNIQ=\(user)") {
                return HIDNode(path: "/dev/\(name)")
            }
        }
        return nil
    }

    /// The names of the user's programs that have opened the device, at most three; nil if none is found. A program chooses its
    /// name, and can hide: a hint for people.
    func openers(user: UInt32 = geteuid(), processes: String = "/proc") -> String? {
        var names: Set<String> = []
        for process in (try? FileManager.default.contentsOfDirectory(atPath: processes)) ?? [] {
            guard Int32(process) != nil else { continue }
            guard (try? Stat("\(processes)/\(process)"))?.userID.rawValue == user else { continue }
            let directory = "\(processes)/\(process)/fd"
            let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            let isOpener = descriptors.contains {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)")) == path
            }
            guard isOpener, let name = FileManager.default.contents(atPath: "\(processes)/\(process)/comm") else {
                continue
            }
            names.insert(
                String(oneLine: String(decoding: name.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self), limit: 32))
        }
        return names.isEmpty ? nil : names.sorted().prefix(3).joined(separator: ", ")
    }
}
