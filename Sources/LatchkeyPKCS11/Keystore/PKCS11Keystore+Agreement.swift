internal import Latchkey

extension PKCS11Keystore {
    /// The token in the module in which its keys can agree: the same, or its twin in this process (see
    /// ``Token/agreementTwin()``).
    ///
    /// In the twin no login is kept. It would be the card's, and with that everybody's who uses the card.
    func agreeing(_ sight: TokenSight, _ operation: String) async throws(KeystoreError) -> TokenSight {
        do {
            guard let twin = try await sight.token.agreementTwin() else { return sight }
            return TokenSight(
                token: twin, information: sight.information, nature: sight.nature, publicKey: sight.publicKey,
                login: twin.login, keepsLogin: false)
        } catch {
            throw failure(error, operation, sight.token)
        }
    }
}
