extension SecretBytes {
    /// The bytes as text, for the moment in which they go into a request. The copy is not cleared.
    package var text: String {
        withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}
