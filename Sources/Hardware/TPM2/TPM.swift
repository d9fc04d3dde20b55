/// A TPM 2.0 behind a transport, with one method per command, named as in TPM 2.0 Part 3.
///
/// Not `Sendable`: the calls block, so use it on a thread that may block. Methods that lend an
/// object or a session to a closure remove it from the TPM when the closure returns or throws.
public final class TPM {
    /// The maximum size of a command or response in bytes. The buffers of all TPMs hold this much
    /// (PC Client profile section 4.6.1).
    public static let maximumMessageBytes = 4096

    let transport: any TPMTransport

    /// Uses the TPM behind a transport.
    public init(_ transport: any TPMTransport) {
        self.transport = transport
    }
}

extension TPM {
    /// Executes a command: encrypts and authorizes it, sends it, and checks, decrypts and decodes
    /// the response.
    ///
    /// - Parameters:
    ///   - entities: The entities of the handle area. The first authorizations belong to the first
    ///     entities; any more are sessions that only encrypt or audit.
    ///   - returnsHandle: Whether the response begins with a handle. The handle is flushed if the
    ///     rest of the response is invalid.
    ///   - work: Done while the TPM executes a command that proves no secret.
    ///   - decode: Reads the response's parameters, all of them.
    func execute<R>(
        _ code: TPMCommandCode, on entities: [any TPMEntity] = [],
        authorizedBy authorizations: [Authorization] = [],
        parameters: TPMWriter = TPMWriter(), returnsHandle: Bool = false,
        newAuthValue: AuthValue? = nil,
        meanwhile work: () -> Void = {}, decode: (inout TPMReader, TPMHandle) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        do {
            let command = try Command(
                code: code, entities: entities, authorizations: authorizations,
                parameters: parameters.bytes,
                newAuthValue: newAuthValue)
            let bytes = try command.marshalled()
            let response =
                try command.provesSecret
                ? transport.exchange(proof: bytes) : transport.exchange(bytes, meanwhile: work)
            return try decoded(response, to: command, returnsHandle: returnsHandle, decode)
        } catch {
            throw error.during(code)
        }
    }

    /// Executes a command whose response contains one structure.
    func result<R: TPMUnmarshallable>(
        of code: TPMCommandCode, on entities: [any TPMEntity] = [],
        authorizedBy authorizations: [Authorization] = [],
        parameters: TPMWriter = TPMWriter()
    ) throws(TPMError) -> R {
        try execute(code, on: entities, authorizedBy: authorizations, parameters: parameters) {
            (reader, _) throws(TPMError) in try reader.read()
        }
    }

    /// Executes a command whose response has no parameters.
    func executeWithoutResult(
        _ code: TPMCommandCode, on entities: [any TPMEntity] = [],
        authorizedBy authorizations: [Authorization] = [],
        parameters: TPMWriter = TPMWriter(), newAuthValue: AuthValue? = nil
    ) throws(TPMError) {
        try execute(
            code, on: entities, authorizedBy: authorizations, parameters: parameters,
            newAuthValue: newAuthValue
        ) {
            (_, _) throws(TPMError) in
        }
    }

    private func decoded<R>(
        _ response: [UInt8], to command: Command, returnsHandle: Bool,
        _ decode: (inout TPMReader, TPMHandle) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let header = try ResponseHeader(of: response)
        guard header.code == .success else {
            throw TPMError(.response(header.code), reason: header.code.description)
        }
        guard header.hasSessions == !command.authorizations.isEmpty else {
            throw .malformed("the tag of the response does not match the command")
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
            // The TPM executed the command, so the new object or session exists even if the
            // response is invalid. Report the first error.
            if returnsHandle { try? flushContext(handle) }
            throw error
        }
    }
}
