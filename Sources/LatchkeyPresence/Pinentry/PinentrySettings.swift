internal import Glibc

/// Where a pinentry program is to appear.
struct PinentrySettings {
    /// The path of the terminal, if there is one.
    let terminal: String?
    /// `name=value`, for Assuan's `OPTION`.
    let options: [String]

    init(environment: [String: String]) {
        terminal = environment["GPG_TTY"] ?? [0, 1, 2].lazy.compactMap(Self.name).first
        let locale = environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"]
        options = [
            ("ttyname", terminal), ("ttytype", environment["TERM"]), ("lc-ctype", locale),
            ("display", environment["DISPLAY"]),
        ].compactMap { name, value in value.map { "\(name)=\($0)" } }
    }

    private static func name(of descriptor: Int32) -> String? {
        var path = [CChar](repeating: 0, count: 256)
        guard ttyname_r(descriptor, &path, path.count) == 0 else { return nil }
        return String(decoding: path.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
