internal import Latchkey

/// The use of a signature, for the prompt.
package struct SignatureUse: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
        /// A login.
        case login(user: String, Server)
        /// A signature over a file or a git object, with its namespace.
        case file(namespace: String)
        /// Other data.
        case anything
    }

    /// The server of a login.
    package enum Server: Hashable, Sendable {
        /// The data to sign contains the host key, so the signature is not valid elsewhere.
        case signed(HostKey)
        /// The program named the host key. The data to sign does not contain it.
        case claimed(HostKey)
        case unnamed
    }

    package let purpose: Purpose
    /// The servers to which the connection is forwarded, the first one first.
    package let forwarders: [HostKey]
    /// Whether the connection is bound to a session.
    package let isBound: Bool

    /// The host key of a login.
    package var server: HostKey? {
        guard case .login(_, let server) = purpose else { return nil }
        return switch server {
        case .signed(let key), .claimed(let key): key
        case .unnamed: nil
        }
    }

    /// Whether one proof can stand for this use and for later ones, within the key's reuse time.
    ///
    /// Not if the user must read the prompt: a server asks, or the data does not say what it is
    /// for. A client that does not bind its connection may forward it without saying so, so a login
    /// through it prompts too.
    package var permitsReuse: Bool {
        guard forwarders.isEmpty else { return false }
        return switch purpose {
        case .login(_, .signed): isBound
        case .file: true
        case .login(_, .claimed), .login(_, .unnamed), .anything: false
        }
    }

    /// The end of "Latchkey asks for your PIN to …". Contains only what the data to sign contains,
    /// and what is marked as a statement of others.
    ///
    /// The target is first, then the server that asks: the presence broker shows 120 characters,
    /// pinentry 200. Texts of others are in quotation marks.
    ///
    /// - Parameters:
    ///   - client: The name of the program that asks, as it calls itself.
    ///   - candidates: Names that hashed lines of `knownHosts` are compared with.
    package func reason(
        key: String, client: String, knownHosts: KnownHosts, candidates: HostNames = HostNames()
    ) -> String {
        func name(_ key: HostKey) -> String {
            knownHosts.name(of: key, among: candidates).text(of: key)
        }
        var text: String
        switch purpose {
        case .login(let user, let server):
            let place =
                switch server {
                case .signed(let key): name(key)
                case .claimed(let key): "\(name(key)) (named by the program only)"
                case .unnamed: "a server that the program does not name"
                }
            text = "log in to \(place) as \(String(quoted: user, limit: 32))"
        case .file("git"): text = "sign a git commit or tag"
        case .file(let namespace):
            text = "sign data of the kind \(String(quoted: namespace, limit: 40))"
        case .anything: text = "SIGN UNKNOWN DATA"
        }
        // The local ssh has proved the first one only.
        if let first = forwarders.first {
            text += ", asked from the server \(name(first))"
            if forwarders.count > 1 { text += " or one behind it" }
        }
        return text + ", with the SSH key \(String(quoted: key, limit: 40)) for \(client)"
    }
}

extension KnownHosts.Name {
    /// The longest name that is shown completely. Of a longer one, the prompt shows the end and the
    /// key.
    private static let nameLimit = 60
    /// The longest pattern that is shown completely.
    private static let patternLimit = 24

    fileprivate func text(of key: HostKey) -> String {
        switch self {
        case .name(let name) where name.unicodeScalars.count <= Self.nameLimit:
            String(quoted: name)
        case .name(let name):
            "\(String(quoted: String(oneLine: name, endLimit: Self.nameLimit - 22))) (\(key.shortFingerprint))"
        case .hashed: "\(key.shortFingerprint) (name hashed in known_hosts)"
        case .pattern(let pattern):
            "\(key.shortFingerprint) (pattern \(String(quoted: String(oneLine: pattern, endLimit: Self.patternLimit))) in known_hosts)"
        case .absent: "\(key.shortFingerprint) (not in known_hosts)"
        }
    }
}
