internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// The description of this device that a server shows in the user's list of devices.
///
/// Servers know two formats, and neither is for Linux. This is the `ios` format: the server shows
/// `uname.machine` unchanged. The value is never only `x86_64` or `arm64`, because a server shows
/// those as a simulator.
public struct DeviceInfo: Hashable, Sendable, Encodable {
    private let ios: [String: [String: String]]

    /// - Parameters:
    ///   - model: The model that the user knows, for example `LENOVO ThinkPad X1`.
    ///   - hostName: The machine's host name.
    ///   - application: The app's name, shown next to the device.
    ///   - applicationID: The app's id in reverse domain form.
    public init(
        model: String, hostName: String, application: String = "Latchkey",
        applicationID: String = "org.latchkey"
    ) {
        self.init(
            model: model, hostName: hostName, application: application,
            applicationID: applicationID, system: .current)
    }

    init(
        model: String, hostName: String, application: String, applicationID: String, system: System
    ) {
        let kind = [system.name, system.architecture, model].filter { !$0.isEmpty }.joined(
            separator: " ")
        ios = [
            "uname": [
                "machine": kind, "nodename": hostName, "release": system.release,
                "sysname": system.name,
                "version": system.version,
            ],
            "UIDevice": [
                "name": hostName, "systemName": system.name, "systemVersion": system.release,
                "model": kind,
            ],
            "NSBundle": [
                "CFBundleIdentifier": applicationID, "CFBundleName": application,
                "CFBundleDisplayName": application,
            ],
        ]
    }

    /// Describes this machine: manufacturer and product from DMI, if present, and host name.
    public static func current(
        application: String = "Latchkey", applicationID: String = "org.latchkey"
    ) -> DeviceInfo {
        let dmi = ["sys_vendor", "product_name"].map { text(in: "/sys/class/dmi/id/\($0)") }
        return DeviceInfo(
            model: dmi.filter { !$0.isEmpty }.joined(separator: " "),
            hostName: text(in: "/proc/sys/kernel/hostname"),
            application: application, applicationID: applicationID)
    }

    /// The value of the form field `x_device_info`: the JSON in base64url.
    package func formValue() throws -> String {
        Base64URL.encode(try CanonicalJSON.encode(self))
    }

    /// At most 128 characters of a file; empty if it can't be read.
    private static func text(in path: String) -> String {
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return String(text.drop(while: \.isWhitespace).prefix(128).filter { !$0.isNewline })
    }

    /// The result of `uname`.
    struct System {
        var name = "Linux"
        var release = ""
        var version = ""
        var architecture = ""

        /// The running kernel.
        static var current: System {
            var names = utsname()
            guard uname(&names) == 0 else { return System() }
            return System(
                name: text(&names.sysname), release: text(&names.release),
                version: text(&names.version),
                architecture: text(&names.machine))
        }

        private static func text<T>(_ field: inout T) -> String {
            withUnsafeBytes(of: &field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
    }
}
