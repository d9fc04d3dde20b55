extension TPM {
    /// Executes a command: encrypts, authorizes, sends, checks, decrypts, decodes.
    ///
    /// - Parameters:
    ///   - entities: The handles. The first ones are authorized by `authorizations`; further authorizations stand for
    ///     sessions that only encrypt.
    ///   - returnsHandle: Whether the response begins with a handle. What it names is flushed when the rest of the
    ///     response is no good.
    ///   - decode: Reads the response's parameters, all of them.
    func execute<R>(
        _ code: TPMCommandCode, on entities: [any TPMEntity] = [], authorizedBy authorizations: [Authorization] = [],
        parameters: TPMWriter = TPMWriter(), returnsHandle: Bool = false, newAuthValue: AuthValue? = nil,
        decode: (inout TPMReader, TPMHandle) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        do {
            let command = try Command(
                code: code, entities: entities, authorizations: authorizations, parameters: parameters.bytes,
                newAuthValue: newAuthValue)
            let bytes = try command.marshalled()
            let response = try command.provesSecret ? transport.exchange(proof: bytes) : transport.exchange(bytes)
            return try read(response, to: command, returnsHandle: returnsHandle, decode: decode)
        } catch {
            throw error.during(code)
        }
    }

    /// Executes a command that returns nothing.
    func execute(
        _ code: TPMCommandCode, on entities: [any TPMEntity] = [], authorizedBy authorizations: [Authorization] = [],
        parameters: TPMWriter = TPMWriter(), newAuthValue: AuthValue? = nil
    ) throws(TPMError) {
        try execute(
            code, on: entities, authorizedBy: authorizations, parameters: parameters, newAuthValue: newAuthValue
        ) {
            (_, _) throws(TPMError) in
        }
    }

    private func read<R>(
        _ response: [UInt8], to command: Command, returnsHandle: Bool,
        decode: (inout TPMReader, TPMHandle) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let header = try ResponseHeader(of: response)
        guard header.code == .success else {
            throw TPMError(.response(header.code), reason: header.code.description)
        }
        guard header.hasSessions == !command.authorizations.isEmpty else {
            throw .malformed("a response's tag does not fit its command")
        }
        var reader = TPMReader(response.dropFirst(ResponseHeader.bytes))
        let handle = returnsHandle ? try reader.read(TPMHandle.self) : .null
        do {
            var parameters = TPMReader(try command.authenticatedParameters(&reader))
            defer { parameters.wipe() }
            try reader.finish()
            let result = try decode(&parameters, handle)
            try parameters.finish()
            return result
        } catch {
            // The command succeeded, so what it loaded is there, whatever the rest of the response is worth. The first
            // error is the one that matters.
            if returnsHandle { try? flushContext(handle) }
            throw error
        }
    }
}
