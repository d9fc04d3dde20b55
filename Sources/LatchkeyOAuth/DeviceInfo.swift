internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// The description of this device that a server shows in the user's list of devices.
///
/// Servers know two formats, and neither is for Linux. This is the `ios` format: the server shows `uname.machine`
/// unchanged. The value is never only `x86_64` or `arm64`, because a server shows those as a simulator.
public struct DeviceInfo: Hashable, Sendable, Encodable {
    private let ios: Platform

    /// - Parameters:
    ///   - model: The model that the user knows, for example `LENOVO ThinkPad X1`.
    ///   - hostName: The machine's host name.
    ///   - application: The app's name, shown next to the device.
    ///   - applicationID: The app's id in reverse domain form.
    ///   - system: Kernel name, release, version and architecture, as returned by `uname`.
    public init(
        model: String, hostName: String, application: String = "Latchkey", applicationID: String = "org.latchkey",
        system: System = .current
    ) {
        let kind = [system.name, system.architecture, model].filter { !$0.isEmpty }.joined(separator: " ")
        ios = Platform(
            uname: .init(
                machine: kind, nodename: hostName, release: system.release, sysname: system.name,
                version: system.version),
            device: .init(name: hostName, systemName: system.name, systemVersion: system.release, model: kind),
            bundle: .init(identifier: applicationID, name: application, displayName: application))
    }

    /// Describes this machine: manufacturer and product from DMI, if present, and host name.
    public static func current(application: String = "Latchkey", applicationID: String = "org.latchkey") -> DeviceInfo {
        let dmi = ["sys_vendor", "product_name"].compactMap { field in
            (try? String(contentsOfFile: "/sys/class/dmi/id/\(field)", encoding: .utf8)).map(trimmed)
        }
        let hostName = (try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)).map(trimmed)
        return DeviceInfo(
            model: dmi.filter { !$0.isEmpty }.joined(separator: " "), hostName: hostName ?? "",
            application: application,
            applicationID: applicationID)
    }

    /// The value of the form field `x_device_info`: the JSON in base64url.
    package func formValue() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Base64URL.encode(try encoder.encode(self))
    }

    private static func trimmed(_ text: String) -> String {
        String(text.drop(while: \.isWhitespace).prefix(128).filter { !$0.isNewline })
    }

    /// The result of `uname`.
    public struct System: Hashable, Sendable {
        /// The kernel's name: `Linux`.
        public var name: String
        /// The kernel's release, for example `6.1.0-21-amd64`.
        public var release: String
        /// The kernel's build.
        public var version: String
        /// The machine's architecture, for example `x86_64`.
        public var architecture: String

        /// Creates a system from the members of `utsname`.
        public init(name: String, release: String, version: String, architecture: String) {
            self.name = name
            self.release = release
            self.version = version
            self.architecture = architecture
        }

        /// The running kernel.
        public static var current: System {
            var names = utsname()
            guard uname(&names) == 0 else { return System(name: "Linux", release: "", version: "", architecture: "") }
            return System(
                name: text(&names.sysname), release: text(&names.release), version: text(&names.version),
                architecture: text(&names.machine))
        }

        private static func text<T>(_ field: inout T) -> String {
            withUnsafeBytes(of: &field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
    }
}

extension DeviceInfo {
    fileprivate struct Platform: Hashable, Sendable, Encodable {
        let uname: Names
        let device: Device
        let bundle: Bundle

        enum CodingKeys: String, CodingKey {
            case uname
            case device = "UIDevice"
            case bundle = "NSBundle"
        }
    }

    fileprivate struct Names: Hashable, Sendable, Encodable {
        let machine: String
        let nodename: String
        let release: String
        let sysname: String
        let version: String
    }

    fileprivate struct Device: Hashable, Sendable, Encodable {
        let name: String
        let systemName: String
        let systemVersion: String
        let model: String
    }

    fileprivate struct Bundle: Hashable, Sendable, Encodable {
        let identifier: String
        let name: String
        let displayName: String

        enum CodingKeys: String, CodingKey {
            case identifier = "CFBundleIdentifier"
            case name = "CFBundleName"
            case displayName = "CFBundleDisplayName"
        }
    }
}
