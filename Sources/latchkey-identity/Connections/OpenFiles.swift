import Glibc

/// The limit of open files of this process (`RLIMIT_NOFILE`): each connection is one.
enum OpenFiles {
    /// Files that the server needs besides connections: the database, logs, and connections that are about to be refused.
    static let reserve = 128

    /// Raises the limit so that so many connections fit.
    ///
    /// - Throws: ``ConfigurationError`` when the hard limit is lower.
    static func allow(connections: Int) throws(ConfigurationError) {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        let needed = rlim_t(connections + reserve)
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < needed else { return }
        limit.rlim_cur = needed
        guard needed <= limit.rlim_max, setrlimit(resource, &limit) == 0 else {
            throw ConfigurationError(
                "connections.total: \(connections) connections need \(needed) open files; this process may have "
                    + "\(limit.rlim_max). Raise the limit (ulimit -n, LimitNOFILE=) or lower connections.total")
        }
    }
}
