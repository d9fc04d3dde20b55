public import GRDB

extension DatabaseQueue {
    /// A connection to a file that the product uses meanwhile. It waits for the product's own connections as another
    /// program would: the last one to close, or the first to open, holds the whole file for a moment.
    public static func raw(at path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}
