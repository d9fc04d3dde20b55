internal import CSystemd

/// The functions of libsystemd. A call before ``Systemd/load()`` has returned ends the process.
let systemd = Systemd.functions ?? latchkey_systemd()

/// The library is loaded at the first use of a bus, because loading it with the libraries that it
/// needs takes 2 ms, and most commands use no bus.
enum Systemd {
    fileprivate static let functions: latchkey_systemd? = {
        var functions = latchkey_systemd()
        return latchkey_systemd_load(&functions) ? functions : nil
    }()

    static func load() throws(BusError) {
        guard functions == nil else { return }
        throw BusError(
            name: "org.latchkey.Bus.Error.Local",
            message: "libsystemd.so.0 cannot be loaded; install the package libsystemd0")
    }
}
