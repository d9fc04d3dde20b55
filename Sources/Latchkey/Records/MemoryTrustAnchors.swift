public import FoundationEssentials
internal import Synchronization

/// Anchors that are forgotten with the process: for callers that keep no store.
public final class MemoryTrustAnchors: TrustAnchors {
    private let values = Mutex<[String: Data]>([:])

    /// No anchors yet: the first of each name is taken.
    public init() {}

    public func anchor(_ name: String) async throws(KeystoreError) -> Data? {
        values.withLock { $0[name] }
    }

    public func anchor(_ name: String, is candidate: Data) async throws(KeystoreError) -> Data {
        values.withLock { values in
            if let standing = values[name] { return standing }
            values[name] = candidate
            return candidate
        }
    }
}
