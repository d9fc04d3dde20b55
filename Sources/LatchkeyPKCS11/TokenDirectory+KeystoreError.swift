public import Latchkey

extension TokenDirectory.Failure {
    /// What is wrong with the module, for a person.
    public var keystoreError: KeystoreError {
        KeystoreError(error, during: "use the module \(modulePath)")
    }
}
