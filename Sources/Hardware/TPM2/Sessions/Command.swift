internal import Crypto

/// A command with its authorizations.
struct Command {
    let code: TPMCommandCode
    let entities: [NamedHandle]
    let authorizations: [Authorization]
    /// The new authValue of the first entity, for a command that changes it. It keys the HMAC of
    /// the response (TPM 2.0 Part 1 section 17.6.5).
    private let newAuthValue: AuthValue?
    /// The parameters as sent. The first one is encrypted if a session has the attribute `decrypt`.
    private let parameters: [UInt8]

    /// - Throws: ``TPMError`` of kind `unsupported` when an unsalted session has an encryption
    ///   attribute.
    init(
        code: TPMCommandCode, entities: [NamedHandle], authorizations: [Authorization],
        parameters: [UInt8],
        newAuthValue: AuthValue? = nil
    ) throws(TPMError) {
        self.code = code
        self.newAuthValue = newAuthValue
        self.entities = entities
        self.authorizations = authorizations
        for case .session(let session, _, let attributes) in authorizations {
            session.state.nonceCaller = Session.randomNonce()
            guard session.canEncrypt || attributes.isDisjoint(with: [.encrypt, .decrypt]) else {
                throw .unsupported("a session that is not salted cannot encrypt")
            }
        }
        self.parameters = try Self.encrypted(parameters, by: authorizations)
    }

    /// Whether a session proves knowledge of a secret, which may be a wrong PIN.
    var provesSecret: Bool { authorizations.contains { $0.authValue.count > 0 } }

    /// The command in wire format.
    func marshalled() throws(TPMError) -> [UInt8] {
        var body = TPMWriter()
        for entity in entities { body.write(entity.handle) }
        if !authorizations.isEmpty {
            let area = authorizationArea()
            body.write(UInt32(area.count))
            body.write(area)
        }
        body.write(parameters)
        guard body.bytes.count + 10 <= TPM.maximumMessageBytes else {
            throw .unsupported("the command is too long")
        }
        var command = TPMWriter(
            authorizations.isEmpty ? MessageTag.noSessions : MessageTag.sessions,
            UInt32(body.bytes.count + 10), code)
        command.write(body.bytes)
        return command.bytes
    }

    /// Authenticates the response's parameters with each session and decrypts the first parameter.
    ///
    /// - Parameters:
    ///   - reader: A reader at the first byte after the handle. Moves to the end of the
    ///     authorizations.
    ///   - handle: The handle, if any, which comes before the parameters in the result.
    func authenticatedParameters(
        _ reader: inout TPMReader, after handle: TPMHandle?
    ) throws(TPMError) -> [UInt8] {
        let prefix = handle?.marshalled ?? []
        guard !authorizations.isEmpty else { return prefix + reader.readRest() }
        let size = Int(try reader.read(UInt32.self))
        let received = try reader.readBytes(size)
        let parameterHash = ParameterHash.response(code, parameters: received)
        for (index, authorization) in authorizations.enumerated() {
            try authenticate(authorization, index == 0 ? newAuthValue : nil, parameterHash, &reader)
        }
        return try decrypted(received, after: prefix)
    }

    /// The position of the session with an attribute, if any.
    private static func index(of attribute: SessionAttributes, in authorizations: [Authorization])
        -> Int?
    {
        authorizations.firstIndex { $0.session != nil && $0.attributes.contains(attribute) }
    }

    private static func encrypted(
        _ parameters: [UInt8], by authorizations: [Authorization]
    ) throws(TPMError) -> [UInt8] {
        guard let index = index(of: .decrypt, in: authorizations),
            let session = authorizations[index].session
        else {
            return parameters
        }
        var reader = TPMReader(parameters)
        var first = try reader.readSized(maximum: TPM.maximumMessageBytes)
        defer { first.withUnsafeMutableBytes { wipeMemory($0) } }
        var writer = TPMWriter()
        writer.writeSized(
            try session.crypt(first, .command, authValue: authorizations[index].authValue))
        writer.write(reader.readRest())
        return writer.bytes
    }

    private func decrypted(
        _ parameters: [UInt8], after prefix: [UInt8]
    ) throws(TPMError) -> [UInt8] {
        guard let index = Self.index(of: .encrypt, in: authorizations),
            let session = authorizations[index].session
        else { return prefix + parameters }
        var reader = TPMReader(parameters)
        var first = try session.crypt(
            reader.readSized(maximum: TPM.maximumMessageBytes), .response,
            authValue: authorizations[index].authValue)
        defer { first.withUnsafeMutableBytes { wipeMemory($0) } }
        var writer = TPMWriter(capacity: prefix.count + parameters.count)
        writer.write(prefix)
        writer.writeSized(first)
        writer.write(reader.readRest())
        return writer.bytes
    }

    private func authorizationArea() -> [UInt8] {
        let parameterHash = ParameterHash.command(
            code, names: entities.map(\.name), parameters: parameters)
        var area = TPMWriter()
        for (index, authorization) in authorizations.enumerated() {
            let session = authorization.session
            let mac = session?.hmac(
                of: parameterHash, .command, nonceTPM: session?.nonceTPM ?? [],
                extraNonces: index == 0 ? encryptionNonces() : [],
                attributes: authorization.attributes,
                authValue: authorization.authValue)
            area.write(
                authorization.handle, TPM2B(session?.state.nonceCaller ?? []),
                authorization.attributes,
                TPM2B(mac ?? []))
        }
        return area.bytes
    }

    /// The nonces of the other sessions that encrypt. The HMAC of the first session covers them, so
    /// that an attacker on the bus cannot remove those sessions (TPM 2.0 Part 1 section 17.6.5).
    private func encryptionNonces() -> [UInt8] {
        let decrypting = Self.index(of: .decrypt, in: authorizations)
        let encrypting = Self.index(of: .encrypt, in: authorizations)
        let others = [decrypting, encrypting == decrypting ? nil : encrypting].compactMap(\.self)
            .filter { $0 != 0 }
        return others.flatMap { authorizations[$0].session?.nonceTPM ?? [] }
    }

    private func authenticate(
        _ authorization: Authorization, _ newAuthValue: AuthValue?, _ parameterHash: [UInt8],
        _ reader: inout TPMReader
    ) throws(TPMError) {
        let nonce = try reader.readSized(maximum: 64)
        let attributes = try reader.read(SessionAttributes.self)
        let mac = try reader.readSized(maximum: 64)
        guard case .session(let session, let authValue, let sent) = authorization else {
            guard nonce.isEmpty, mac.isEmpty else {
                throw .malformed("a password session returned a nonce or HMAC")
            }
            return
        }
        let expected = session.hmac(
            of: parameterHash, .response, nonceTPM: nonce, attributes: attributes,
            authValue: newAuthValue ?? authValue)
        guard isEqualInConstantTime(expected, mac) else {
            throw .forged("the HMAC of the response is wrong")
        }
        session.state.nonceTPM = nonce
        if !sent.contains(.continueSession) { session.isLoaded = false }
    }
}

/// Compares in a time that depends on the lengths only.
private func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && zip(left, right).reduce(into: UInt8(0)) { $0 |= $1.0 ^ $1.1 } == 0
}

/// The first 10 bytes of a response (TPM 2.0 Part 1 section "Response header").
struct ResponseHeader {
    static let bytes = 10

    let hasSessions: Bool
    let code: ResponseCode

    /// - Throws: ``TPMError`` of kind `malformed`, also when the size in the header is not the size
    ///   of the response.
    init(of response: [UInt8]) throws(TPMError) {
        var reader = TPMReader(response)
        let tag = try reader.read(UInt16.self)
        let size = Int(try reader.read(UInt32.self))
        code = try reader.read()
        guard size == response.count else {
            throw .malformed("a response has \(response.count) bytes and its header says \(size)")
        }
        switch tag {
        case MessageTag.sessions: hasSessions = true
        case MessageTag.noSessions: hasSessions = false
        // TPM_ST_RSP_COMMAND: the tag of a TPM 1.2, and of a TPM 2.0 that rejects the tag of the
        // command.
        case 0x00c4: hasSessions = false
        default: throw .malformed("a response has the unknown tag 0x\(String(tag, radix: 16))")
        }
    }
}

/// The tags of commands and responses, `TPM_ST` (TPM 2.0 Part 2 section 6.9).
enum MessageTag {
    static let noSessions: UInt16 = 0x8001
    static let sessions: UInt16 = 0x8002
}

/// The digests that bind authorizations to commands and responses (TPM 2.0 Part 1 sections 16.7 and
/// 16.8), with SHA-256.
package enum ParameterHash {
    /// `cpHash = H(commandCode ‖ Names of the handles ‖ parameters)`, which limits an approval to
    /// this command.
    ///
    /// - Parameter parameters: The parameters as sent.
    package static func command(_ code: TPMCommandCode, names: [TPMName], parameters: [UInt8])
        -> [UInt8]
    {
        Array(SHA256.hash(data: code.marshalled + names.flatMap(\.bytes) + parameters))
    }

    /// `rpHash = H(responseCode ‖ commandCode ‖ parameters)`, for a command that succeeded.
    package static func response(_ code: TPMCommandCode, parameters: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(data: ResponseCode.success.marshalled + code.marshalled + parameters))
    }
}
