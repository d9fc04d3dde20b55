public import FoundationEssentials

/// Where a keystore remembers what it has decided to trust, for example the public area of a TPM's storage root key.
///
/// The first value under a name stands; nothing overwrites it. ``RecordStore`` is the durable implementation.
public protocol TrustAnchors: Sendable {
    /// The value that stands under `name`, or nil.
    func anchor(_ name: String) async throws(KeystoreError) -> Data?

    /// Sets the value under `name` if there is none yet.
    ///
    /// - Returns: The value that stands now: `candidate`, or the one that was there before.
    func anchor(_ name: String, is candidate: Data) async throws(KeystoreError) -> Data

    /// The ``HardwareKey/blob`` and ``SealedSecret/blob`` of everything of a backend that is stored together with the anchors.
    ///
    /// A keystore that finds no anchor compares them with the hardware before it sets one: in a store that has keys, the
    /// anchor was deleted. By default nothing is stored.
    func storedBlobs(of backend: String) async throws(KeystoreError) -> [Data]
}

extension TrustAnchors {
    public func storedBlobs(of backend: String) async throws(KeystoreError) -> [Data] { [] }
}
