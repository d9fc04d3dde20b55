public import FoundationEssentials
internal import Synchronization

/// The values that a keystore trusts, for example the public area of a TPM's storage root key.
///
/// The first value under a name is final, except the values that ``replaceAnchor(_:with:)``
/// changes: the keystore uses them for data of which it trusts no part before it has checked it
/// again, for example certificates. ``RecordStore`` is the durable implementation.
public protocol TrustAnchors: Sendable {
    /// Returns the value under `name`, or nil.
    func anchor(_ name: String) async throws(CommonError) -> Data?

    /// Sets the value under `name` unless it is already set.
    ///
    /// - Returns: The value under `name` now: `candidate`, or an earlier value.
    func anchor(_ name: String, is candidate: Data) async throws(CommonError) -> Data

    /// Returns the backend's data of all keys and secrets that are stored together with the
    /// anchors.
    ///
    /// A keystore that finds no anchor compares them with the hardware before it sets one: if there
    /// are stored keys, the anchor was deleted. The default implementation returns nothing.
    func storedBlobs(of backend: String) async throws(CommonError) -> [Data]

    /// Replaces the value under `name`, or removes it if `value` is nil. The default implementation
    /// throws `unsupported`.
    func replaceAnchor(_ name: String, with value: Data?) async throws(CommonError)

    /// Returns the names that begin with `prefix`, sorted. The default implementation returns
    /// nothing.
    func anchorNames(with prefix: String) async throws(CommonError) -> [String]
}

extension TrustAnchors {
    public func storedBlobs(of backend: String) async throws(CommonError) -> [Data] { [] }

    public func replaceAnchor(_ name: String, with value: Data?) async throws(CommonError) {
        throw .unsupported("this store cannot replace a value", recovery: "Use a RecordStore.")
    }

    public func anchorNames(with prefix: String) async throws(CommonError) -> [String] { [] }
}

/// Trust anchors in memory only, for callers without a store.
public final class MemoryTrustAnchors: TrustAnchors {
    private let values = Mutex<[String: Data]>([:])

    /// Creates an empty set of anchors.
    public init() {}

    public func anchor(_ name: String) async throws(CommonError) -> Data? {
        values.withLock { $0[name] }
    }

    public func anchor(_ name: String, is candidate: Data) async throws(CommonError) -> Data {
        values.withLock { values in
            if let existing = values[name] { return existing }
            values[name] = candidate
            return candidate
        }
    }

    public func replaceAnchor(_ name: String, with value: Data?) async throws(CommonError) {
        values.withLock { $0[name] = value }
    }

    public func anchorNames(with prefix: String) async throws(CommonError) -> [String] {
        values.withLock { $0.keys.filter { $0.hasPrefix(prefix) }.sorted() }
    }
}
