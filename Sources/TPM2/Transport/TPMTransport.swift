/// A connection to a TPM that carries one command at a time.
///
/// Not `Sendable`: it belongs to the thread that opened it, since its calls block.
public protocol TPMTransport: AnyObject {
    /// Sends one command and waits for its response.
    ///
    /// - Parameter command: At most ``TPM/maximumMessageBytes`` bytes.
    /// - Returns: The response, at most ``TPM/maximumMessageBytes`` bytes, not yet looked at.
    /// - Throws: ``TPMError`` of kind `transport`.
    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8]

    /// Sends a command that proves a secret: the TPM may count it as a wrong guess each time that it is sent.
    ///
    /// The default implementation is ``exchange(_:)``.
    func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8]

    /// Ends the connection. It can't be used afterwards. Closing twice does nothing.
    func close()
}

extension TPMTransport {
    public func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8] { try exchange(command) }
}
