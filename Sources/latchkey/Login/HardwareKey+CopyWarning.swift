import Latchkey

extension HardwareKey {
    /// What copies of the store can do with a login's key for ever, one sentence; nil where that is nothing. A token's key is
    /// on the token, which deletes it or says that it can't.
    var copyWarning: String? {
        switch assurance.root {
        case .tpm, .swtpm:
            isRevocable
                ? nil
                : "This hardware cannot revoke the key: a copy of the store can sign with it here after ‘disable’."
        case .token, .softhsm: nil
        }
    }
}
