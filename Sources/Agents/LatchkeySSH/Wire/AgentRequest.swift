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
    /// The extension `only-own-keys@latchkey.org`, from another agent: pass no request of this
    /// connection on. It ends a chain of agents, which could be a ring.
    case onlyOwnKeys
    /// The extension `prompt-obstacle@latchkey.org`: the reason why this agent cannot prompt, and
    /// the next step; two empty strings if no reason is known.
    case promptObstacle
    /// SSH_AGENTC_REMOVE_IDENTITY.
    case remove(publicKey: [UInt8])
    /// A request that this agent does not support itself: adding and removing keys, smart cards,
    /// locking, and other extensions.
    case change
    case unsupported(type: UInt8)

    /// The maximum length of a message in bytes, as in OpenSSH.
    package static let maximumBytes = 256 * 1024

    /// SSH_AGENTC_EXTENSION.
    private static let extensionType: UInt8 = 27

    static let queryName = "query"
    static let sessionBindName = "session-bind@openssh.com"
    static let ownKeysName = "only-own-keys@latchkey.org"
    static let promptObstacleName = "prompt-obstacle@latchkey.org"

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
        case Self.extensionType:
            switch try reader.text() {
            case Self.sessionBindName: self = .bindSession(try SessionBind(&reader))
            case Self.queryName:
                try reader.end()
                self = .queryExtensions
            case Self.ownKeysName:
                try reader.end()
                self = .onlyOwnKeys
            case Self.promptObstacleName:
                try reader.end()
                self = .promptObstacle
            default: self = .change
            }
        case 18:
            self = .remove(publicKey: try reader.string())
            try reader.end()
        // SSH_AGENTC_ADD_IDENTITY, REMOVE_ALL_IDENTITIES, ADD_SMARTCARD_KEY, REMOVE_SMARTCARD_KEY,
        // LOCK, UNLOCK, ADD_ID_CONSTRAINED, ADD_SMARTCARD_KEY_CONSTRAINED.
        case 17, 19...23, 25, 26: self = .change
        default: self = .unsupported(type: type)
        }
    }
}

extension AgentRequest {
    /// The messages that this package's programs send to an agent.
    package static let listMessage: [UInt8] = [11]
    package static let ownKeysMessage = extensionMessage(ownKeysName)
    package static let promptObstacleMessage = extensionMessage(promptObstacleName)

    /// Whether a message is a session binding, also if its contents are malformed.
    package static func isSessionBinding(_ message: [UInt8]) -> Bool {
        var reader = SSHReader(message)
        return (try? reader.byte()) == extensionType && (try? reader.text()) == sessionBindName
    }

    private static func extensionMessage(_ name: String) -> [UInt8] {
        var message = SSHWriter()
        message.byte(extensionType)
        message.string(name)
        return message.bytes
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
