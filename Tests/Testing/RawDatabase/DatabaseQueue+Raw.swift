public import GRDB

extension DatabaseQueue {
    /// Opens a file that the product uses at the same time. It waits for locks of the product's
    /// connections, as another program would: the first connection to open and the last to close
    /// lock the whole file for a short time.
    public static func raw(at path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}
