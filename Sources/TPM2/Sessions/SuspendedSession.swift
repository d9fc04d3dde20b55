internal import Crypto

/// A session that was swapped out of the TPM, with what its user knows of it. It may travel between threads.
public struct SuspendedSession: Sendable {
    /// Its handle.
    public let handle: TPMHandle
    /// Its Name.
    public let name: TPMName
    /// The TPM's latest nonce: what an approval by signature is bound to.
    public let nonceTPM: [UInt8]

    let context: SavedContext
    private let kind: Session.Kind
    private let key: SymmetricKey
    private let needsAuthValue: Bool
    private let nonceCaller: [UInt8]

    init(context: SavedContext, session: Session) {
        self.context = context
        handle = session.handle
        name = session.name
        kind = session.kind
        key = session.key
        needsAuthValue = session.needsAuthValue
        nonceCaller = session.nonceCaller
        nonceTPM = session.nonceTPM
    }

    /// The session as it was.
    var session: Session {
        Session(
            handle: handle, kind: kind, key: key, needsAuthValue: needsAuthValue, nonceCaller: nonceCaller,
            nonceTPM: nonceTPM)
    }
}
