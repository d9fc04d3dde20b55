internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// The public half of the key with that `CKA_ID`, which can be seen without a login; nil where there is none.
    func publicKey(id: Data) throws(CryptokiError) -> PublicKey? { throw .unwritten }
}
