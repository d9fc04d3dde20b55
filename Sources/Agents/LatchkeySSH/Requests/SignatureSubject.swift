/// The data that a client asks to sign, as OpenSSH's programs format it.
package enum SignatureSubject: Hashable, Sendable {
    /// The authentication of a user at a server (RFC 4252 section 7).
    case login(Login)
    /// A signature of `ssh-keygen -Y sign` or git: the namespace, for example `git` or `file`
    /// (OpenSSH's PROTOCOL.sshsig).
    case file(namespace: String)
    /// Other data. It begins neither like a login request nor like a file signature.
    case other

    package struct Login: Hashable, Sendable {
        package let sessionID: [UInt8]
        package let user: String
        /// The key that the client names: a plain key or a certificate.
        package let publicKey: [UInt8]
        /// The server's host key, for the method `publickey-hostbound-v00@openssh.com` only.
        package let hostKey: [UInt8]?

        package init(sessionID: [UInt8], user: String, publicKey: [UInt8], hostKey: [UInt8]?) {
            (self.sessionID, self.user) = (sessionID, user)
            (self.publicKey, self.hostKey) = (publicKey, hostKey)
        }
    }

    /// SSH_MSG_USERAUTH_REQUEST.
    private static let userAuthenticationRequest: UInt8 = 50
    private static let magic = Array("SSHSIG".utf8)
    /// The maximum length of a namespace or user name in bytes.
    private static let maximumNameBytes = 256

    /// - Throws: ``SSHFormatError`` for a malformed login request or file signature: a server may
    ///   read it less strictly.
    package init(_ data: [UInt8]) throws(SSHFormatError) {
        self =
            if data.starts(with: Self.magic) {
                try Self.file(data)
            } else if let session = Self.session(data) {
                .login(try Self.login(data, session))
            } else {
                .other
            }
    }

    /// The session with which a login request begins; nil for other data.
    private static func session(_ data: [UInt8]) -> [UInt8]? {
        var reader = SSHReader(data)
        guard let session = try? reader.string(), (1...64).contains(session.count),
            (try? reader.byte()) == userAuthenticationRequest
        else { return nil }
        return session
    }

    private static func file(_ data: [UInt8]) throws(SSHFormatError) -> SignatureSubject {
        var reader = SSHReader(data.dropFirst(magic.count))
        let namespace = try name(&reader)
        let reserved = try reader.string()
        let (hash, digest) = (try reader.text(), try reader.string())
        try reader.end()
        guard !namespace.isEmpty, reserved.isEmpty else {
            throw SSHFormatError("the signature has no namespace, or a reserved field is used")
        }
        guard ["sha256": 32, "sha512": 64][hash] == digest.count else {
            throw SSHFormatError("the digest is not a SHA-256 or SHA-512 digest")
        }
        return .file(namespace: namespace)
    }

    private static func login(
        _ data: [UInt8], _ sessionID: [UInt8]
    ) throws(SSHFormatError) -> Login {
        // The length of the session ID, the ID and the type of the message.
        var reader = SSHReader(data.dropFirst(4 + sessionID.count + 1))
        let user = try name(&reader)
        let (service, method) = (try reader.text(), try reader.text())
        guard service == "ssh-connection", try reader.byte() == 1 else {
            throw SSHFormatError("the login request is not for a connection")
        }
        let algorithm = try reader.text()
        let publicKey = try reader.string()
        guard algorithm == SSHPublicKey.algorithm || algorithm == SSHCertificate.algorithm else {
            throw SSHFormatError("the login request names another algorithm")
        }
        let hostKey: [UInt8]?
        switch method {
        case "publickey": hostKey = nil
        case "publickey-hostbound-v00@openssh.com": hostKey = try reader.string()
        default: throw SSHFormatError("the login request is not for a public key")
        }
        try reader.end()
        return Login(sessionID: sessionID, user: user, publicKey: publicKey, hostKey: hostKey)
    }

    private static func name(_ reader: inout SSHReader) throws(SSHFormatError) -> String {
        let name = try reader.text()
        guard name.utf8.count <= maximumNameBytes else {
            throw SSHFormatError("a name is too long")
        }
        return name
    }
}
