/// A connection to a TPM that carries one command at a time.
///
/// Not `Sendable`: use it on the thread that opened it, since its calls block.
public protocol TPMTransport: AnyObject {
    /// Sends one command and waits for its response.
    ///
    /// - Parameter command: At most ``TPM/maximumMessageBytes`` bytes.
    /// - Returns: The response, unchecked, at most ``TPM/maximumMessageBytes`` bytes.
    /// - Throws: ``TPMError`` of kind `transport`.
    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8]

    /// Sends a command that proves a secret. The TPM may count a wrong secret each time that it
    /// receives the command.
    ///
    /// The default implementation is ``exchange(_:)``.
    func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8]

    /// Closes the connection for good. A second call does nothing.
    func close()
}

extension TPMTransport {
    public func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8] {
        try exchange(command)
    }
}
