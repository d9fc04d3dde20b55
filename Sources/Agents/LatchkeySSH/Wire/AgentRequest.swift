/// A request of a client to an SSH agent (RFC 9987 section 3).
package enum AgentRequest: Hashable, Sendable {
    /// SSH_AGENTC_REQUEST_IDENTITIES.
    case listIdentities
    /// SSH_AGENTC_SIGN_REQUEST: the public key, the data to sign, and flags, which matter for RSA
    /// keys only.
    case sign(publicKey: [UInt8], data: [UInt8], flags: UInt32)
    /// The extension `session-bind@openssh.com` (OpenSSH's PROTOCOL.agent section 1).
    case bindSession(SessionBind)
    /// The extension `query`: the names of the supported extensions.
    case queryExtensions
    /// Another extension.
    case otherExtension
    /// A request that this agent refuses: adding and removing keys, smart cards and locking.
    case unsupported(type: UInt8)

    /// The maximum length of a message in bytes, as in OpenSSH.
    package static let maximumBytes = 256 * 1024

    static let sessionBindName = "session-bind@openssh.com"

    /// Reads the message after its length.
    package init(_ message: some Sequence<UInt8>) throws(SSHFormatError) {
        var reader = SSHReader(message)
        let type = try reader.byte()
        switch type {
        case 11:
            try reader.end()
            self = .listIdentities
        case 13:
            let (publicKey, data) = (try reader.string(), try reader.string())
            self = .sign(publicKey: publicKey, data: data, flags: try reader.uint32())
            try reader.end()
        case 27:
            switch try reader.text() {
            case Self.sessionBindName: self = .bindSession(try SessionBind(&reader))
            case "query":
                try reader.end()
                self = .queryExtensions
            default: self = .otherExtension
            }
        default: self = .unsupported(type: type)
        }
    }
}

/// The contents of a request `session-bind@openssh.com`: the client states which server's key
/// exchange a session has.
package struct SessionBind: Hashable, Sendable {
    /// The server's host key or host certificate.
    package let hostKey: [UInt8]
    /// The session ID: the hash of the first key exchange.
    package let sessionID: [UInt8]
    /// The server's signature over the session ID.
    package let signature: [UInt8]
    /// Whether this connection to the agent is forwarded to that server.
    package let isForwarding: Bool

    package init(hostKey: [UInt8], sessionID: [UInt8], signature: [UInt8], isForwarding: Bool) {
        (self.hostKey, self.sessionID, self.signature) = (hostKey, sessionID, signature)
        self.isForwarding = isForwarding
    }

    init(_ reader: inout SSHReader) throws(SSHFormatError) {
        hostKey = try reader.string()
        sessionID = try reader.string()
        signature = try reader.string()
        isForwarding = try reader.boolean()
        try reader.end()
        guard (1...64).contains(sessionID.count) else {
            throw SSHFormatError("the session ID is not a hash")
        }
    }
}
