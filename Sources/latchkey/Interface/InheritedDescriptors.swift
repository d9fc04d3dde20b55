import Glibc

/// The descriptors that were open when the program started: what whoever started it has given it. Later ones are its own
/// files, and no place for PINs to come from.
enum InheritedDescriptors {
    private static let count: Int32 = 256
    private static let open: Set<Int32> = {
        var entries = (0..<count).map { pollfd(fd: $0, events: 0, revents: 0) }
        guard poll(&entries, nfds_t(entries.count), 0) >= 0 else { return [] }
        return Set(entries.filter { $0.revents & Int16(POLLNVAL) == 0 }.map(\.fd))
    }()

    /// Looks at them. To be called before anything is opened.
    static func note() { _ = open }

    static func contains(_ descriptor: Int32) -> Bool {
        descriptor < count ? open.contains(descriptor) : fcntl(descriptor, F_GETFD) >= 0
    }
}
