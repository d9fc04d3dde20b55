/// A command of TPM 2.0 Part 3: its handles and parameters. ``TPM/execute(_:in:authorizedBy:)``
/// sends it, and ``hash`` binds an approval to it.
package protocol TPMCommand: TPMMarshallable, Sendable {
    /// The response's handle and parameters.
    associatedtype Response = Void

    /// The command code.
    static var code: TPMCommandCode { get }
    /// The number of handles that need an authorization. They come first.
    static var authorizedHandles: Int { get }
    /// Whether the response begins with the handle of a new object or session.
    static var returnsHandle: Bool { get }
    /// The entities of the handle area, without the session of a policy command, which comes last.
    var entities: [NamedHandle] { get }
    /// The new authValue of the first entity, for a command that changes it. It keys the HMAC of
    /// the response (TPM 2.0 Part 1 section 17.6.5).
    var newAuthValue: AuthValue? { get }

    /// Writes the parameters.
    func marshal(into writer: inout TPMWriter)
    /// Reads the handle of the response, if it has one, and its parameters.
    func response(from reader: inout TPMReader) throws(TPMError) -> Response
    /// Notes the effect of a successful policy command on its session.
    func completed(in session: Session)
}

extension TPMCommand {
    package static var authorizedHandles: Int { 0 }
    package static var returnsHandle: Bool { false }
    package var entities: [NamedHandle] { [] }
    package var newAuthValue: AuthValue? { nil }
    package func marshal(into writer: inout TPMWriter) {}
    package func completed(in session: Session) {}

    /// The cpHash: `H(commandCode ‖ Names of the handles ‖ parameters)`, which limits an approval
    /// to this command (TPM 2.0 Part 1 section 16.7).
    package var hash: [UInt8] {
        ParameterHash.command(
            Self.code, names: entities.map(\.name), parameters: marshalled)
    }
}

extension TPMCommand where Response == Void {
    package func response(from reader: inout TPMReader) throws(TPMError) {}
}

extension TPMCommand where Response: TPMUnmarshallable {
    package func response(from reader: inout TPMReader) throws(TPMError) -> Response {
        try reader.read()
    }
}

/// A command that uses one object, which may not be loaded yet.
package protocol KeyCommand: TPMCommand where Response: Sendable {
    /// Whether the response is a secret, which a session must encrypt on the bus.
    static var isResponseSecret: Bool { get }
    /// The object.
    var key: NamedHandle { get set }
}

extension KeyCommand {
    package static var authorizedHandles: Int { 1 }
    package var entities: [NamedHandle] { [key] }
}

/// A command that executes one assertion of a policy in a session.
package protocol PolicyAssertion: TPMCommand {
    /// The digest of a session with `policy` after this command.
    func extend(_ policy: PolicyDigest) -> PolicyDigest
}

extension TPM {
    /// Executes a command: encrypts and authorizes it, sends it, and checks, decrypts and decodes
    /// the response.
    ///
    /// - Parameters:
    ///   - session: The session of a policy command.
    ///   - authorizations: In the order of the handles. The empty password authorizes a handle that
    ///     needs an authorization and gets none. Further sessions only encrypt or audit.
    @discardableResult
    package func execute<C: TPMCommand>(
        _ command: C, in session: Session? = nil, authorizedBy authorizations: Authorization...
    ) throws(TPMError) -> C.Response {
        try execute(command, in: session, authorizations)
    }

    @discardableResult
    func execute<C: TPMCommand>(
        _ command: C, in session: Session?, _ authorizations: [Authorization]
    ) throws(TPMError) -> C.Response {
        do {
            // The capacity is sufficient for all commands with a secret, so that no copy of it is
            // left in memory.
            var parameters = TPMWriter(capacity: 1024)
            defer { parameters.wipe() }
            command.marshal(into: &parameters)
            let missing = max(0, C.authorizedHandles - authorizations.count)
            let request = try Command(
                code: C.code,
                entities: command.entities + (session.map { [NamedHandle($0)] } ?? []),
                authorizations: authorizations
                    + Array(repeating: .emptyPassword, count: missing),
                parameters: parameters.bytes, newAuthValue: command.newAuthValue)
            let bytes = try request.marshalled()
            let response =
                try request.provesSecret
                ? transport.exchange(proof: bytes) : transport.exchange(bytes)
            let result = try decoded(response, to: command, request)
            if let session { command.completed(in: session) }
            return result
        } catch {
            throw error.during(C.code)
        }
    }

    private func decoded<C: TPMCommand>(
        _ response: [UInt8], to command: C, _ request: Command
    ) throws(TPMError) -> C.Response {
        let header = try ResponseHeader(of: response)
        guard header.code == .success else {
            throw TPMError(.response(header.code), reason: header.code.description)
        }
        guard header.hasSessions == !request.authorizations.isEmpty else {
            throw .malformed("the tag of the response does not match the command")
        }
        var reader = TPMReader(response.dropFirst(ResponseHeader.bytes))
        let handle = C.returnsHandle ? try reader.read(TPMHandle.self) : nil
        do {
            var parameters = TPMReader(try request.authenticatedParameters(&reader, after: handle))
            defer { parameters.wipe() }
            try reader.finish()
            let result = try command.response(from: &parameters)
            try parameters.finish()
            return result
        } catch {
            // The TPM executed the command, so the new object or session exists even if the
            // response is invalid. Report the first error.
            if let handle { try? execute(FlushContext(handle)) }
            throw error
        }
    }
}
