internal import Crypto

/// One command on its way, with its authorizations.
struct Command {
    let code: TPMCommandCode
    let entities: [any TPMEntity]
    let authorizations: [Authorization]
    /// What the first authorization's entity has as its authValue once the command succeeded, where that changes: the
    /// response is proven with it (TPM 2.0 Part 1 section 17.6.5).
    private let newAuthValue: AuthValue?
    /// As they go over the wire: the first one is encrypted when a session says so.
    private let parameters: [UInt8]

    /// - Throws: ``TPMError`` of kind `unsupported` when a session without a secret is to encrypt.
    init(
        code: TPMCommandCode, entities: [any TPMEntity], authorizations: [Authorization], parameters: [UInt8],
        newAuthValue: AuthValue? = nil
    ) throws(TPMError) {
        self.code = code
        self.newAuthValue = newAuthValue
        self.entities = entities
        self.authorizations = authorizations
        for case .session(let session, _, let attributes) in authorizations {
            session.rollNonceCaller()
            guard session.canEncrypt || attributes.isDisjoint(with: [.encrypt, .decrypt]) else {
                throw .unsupported("a session that is not salted can't encrypt")
            }
        }
        self.parameters = try Self.encrypted(parameters, by: authorizations)
    }

    /// Whether a session proves knowledge of a secret in it, which may be a wrong PIN.
    var provesSecret: Bool {
        authorizations.contains { authorization in
            if case .session(_, let authValue, _) = authorization { authValue.count > 0 } else { false }
        }
    }

    /// The whole command.
    func marshalled() throws(TPMError) -> [UInt8] {
        var body = TPMWriter()
        for entity in entities { body.write(entity.handle) }
        if !authorizations.isEmpty {
            let area = authorizationArea()
            body.write(UInt32(area.count))
            body.write(area)
        }
        body.write(parameters)
        guard body.bytes.count + 10 <= TPM.maximumMessageBytes else { throw .unsupported("the command is too long") }
        var command = TPMWriter()
        command.write(authorizations.isEmpty ? MessageTag.noSessions : MessageTag.sessions)
        command.write(UInt32(body.bytes.count + 10))
        command.write(code.rawValue)
        command.write(body.bytes)
        return command.bytes
    }

    /// The response's parameters, after every session has authenticated them and the first has been decrypted.
    ///
    /// - Parameter reader: Stands after the handle; stands after the authorizations afterwards.
    func authenticatedParameters(_ reader: inout TPMReader) throws(TPMError) -> [UInt8] {
        guard !authorizations.isEmpty else { return reader.readRest() }
        let size = Int(try reader.read(UInt32.self))
        let received = try reader.readBytes(size)
        let parameterHash = ParameterHash.response(code, parameters: received)
        for (index, authorization) in authorizations.enumerated() {
            try authenticate(authorization, index == 0 ? newAuthValue : nil, parameterHash, &reader)
        }
        return try decrypted(received)
    }

    /// The position of the session that has `attribute`, if any.
    private static func index(of attribute: SessionAttributes, in authorizations: [Authorization]) -> Int? {
        authorizations.firstIndex { $0.session != nil && $0.attributes.contains(attribute) }
    }

    /// The authValue takes part in encryption only where the session authorizes a handle (TPM 2.0 Part 1 section 19.2).
    private static func cryptAuthValue(_ authorization: Authorization) -> AuthValue {
        if case .session(_, let authValue, _) = authorization { authValue } else { .empty }
    }

    private static func encrypted(
        _ parameters: [UInt8], by authorizations: [Authorization]
    ) throws(TPMError) -> [UInt8] {
        guard let index = index(of: .decrypt, in: authorizations), let session = authorizations[index].session else {
            return parameters
        }
        var reader = TPMReader(parameters)
        var first = try reader.readSized(maximum: TPM.maximumMessageBytes)
        defer { first.withUnsafeMutableBytes { wipeMemory($0) } }
        var writer = TPMWriter()
        writer.writeSized(try session.crypt(first, .command, authValue: cryptAuthValue(authorizations[index])))
        writer.write(reader.readRest())
        return writer.bytes
    }

    private func decrypted(_ parameters: [UInt8]) throws(TPMError) -> [UInt8] {
        guard let index = Self.index(of: .encrypt, in: authorizations), let session = authorizations[index].session
        else { return parameters }
        var reader = TPMReader(parameters)
        var first = try session.crypt(
            reader.readSized(maximum: TPM.maximumMessageBytes), .response,
            authValue: Self.cryptAuthValue(authorizations[index]))
        defer { first.withUnsafeMutableBytes { wipeMemory($0) } }
        var writer = TPMWriter(capacity: parameters.count)
        writer.writeSized(first)
        writer.write(reader.readRest())
        return writer.bytes
    }

    private func authorizationArea() -> [UInt8] {
        let parameterHash = ParameterHash.command(code, names: entities.map(\.name), parameters: parameters)
        var area = TPMWriter()
        for (index, authorization) in authorizations.enumerated() {
            area.write(authorization.handle)
            switch authorization {
            case .emptyPassword:
                area.writeSized([])
                area.write(authorization.attributes.rawValue)
                area.writeSized([])
            case .session(let session, let authValue, let attributes):
                area.writeSized(session.nonceCaller)
                area.write(attributes.rawValue)
                area.writeSized(
                    session.hmac(
                        of: parameterHash, .command, nonceTPM: session.nonceTPM,
                        extraNonces: index == 0 ? encryptionNonces() : [], attributes: attributes, authValue: authValue)
                )
            }
        }
        return area.bytes
    }

    /// The nonces of other sessions that encrypt: the first session's HMAC covers them, so that nobody can take those
    /// sessions away (TPM 2.0 Part 1 section 17.6.5).
    private func encryptionNonces() -> [UInt8] {
        let decrypting = Self.index(of: .decrypt, in: authorizations)
        let encrypting = Self.index(of: .encrypt, in: authorizations)
        var nonces: [UInt8] = []
        if let decrypting, decrypting != 0 { nonces += authorizations[decrypting].session?.nonceTPM ?? [] }
        if let encrypting, encrypting != 0, encrypting != decrypting {
            nonces += authorizations[encrypting].session?.nonceTPM ?? []
        }
        return nonces
    }

    private func authenticate(
        _ authorization: Authorization, _ newAuthValue: AuthValue?, _ parameterHash: [UInt8],
        _ reader: inout TPMReader
    ) throws(TPMError) {
        let nonce = try reader.readSized(maximum: 64)
        let attributes = SessionAttributes(rawValue: try reader.read())
        let mac = try reader.readSized(maximum: 64)
        guard case .session(let session, let authValue, let sent) = authorization else {
            guard nonce.isEmpty, mac.isEmpty else { throw .malformed("a password session answered with a proof") }
            return
        }
        let expected = session.hmac(
            of: parameterHash, .response, nonceTPM: nonce, attributes: attributes,
            authValue: newAuthValue ?? authValue)
        guard isEqualInConstantTime(expected, mac) else {
            throw .forged("the response does not carry the session's proof")
        }
        session.accept(nonceTPM: nonce)
        if !sent.contains(.continueSession) { session.isLoaded = false }
    }
}

/// The time depends on the lengths only.
private func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && zip(left, right).reduce(into: UInt8(0)) { $0 |= $1.0 ^ $1.1 } == 0
}
