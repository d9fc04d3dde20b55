internal import Latchkey

/// The use of a signature, for the prompt.
package struct SignatureUse: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
        /// A login. The host key is nil if neither the connection nor the data names one.
        case login(user: String, hostKey: HostKey?)
        /// A signature over a file or a git object, with its namespace.
        case file(namespace: String)
        /// Other data.
        case anything
    }

    package let purpose: Purpose
    /// The servers to which the connection is forwarded, the first one first.
    package let forwarders: [HostKey]

    /// The end of "Latchkey asks for your PIN to …". The server to which the connection is
    /// forwarded is first, then the server of the login, because the presence broker shows 120
    /// characters. Texts of others are in quotation marks.
    ///
    /// - Parameters:
    ///   - client: The name of the program that asks, as it calls itself.
    package func reason(key: String, client: String, knownHosts: KnownHosts) -> String {
        let (verb, object): (String, String)
        switch purpose {
        case .login(let user, let hostKey):
            let server =
                hostKey.map { Self.name($0, knownHosts) }
                ?? "a server that the program does not name"
            (verb, object) = ("log in", "to \(server) as \(String(quoted: user, limit: 32))")
        case .file("git"): (verb, object) = ("sign", "a git commit or tag")
        case .file(let namespace):
            (verb, object) = ("sign", "data of the kind \(String(quoted: namespace, limit: 40))")
        case .anything: (verb, object) = ("SIGN", "UNKNOWN DATA")
        }
        let origin =
            forwarders.last.map { ", asked from the server \(Self.name($0, knownHosts))," } ?? ""
        return
            "\(verb)\(origin) \(object), with the SSH key \(String(quoted: key, limit: 40)) for \(client)"
    }

    private static func name(_ key: HostKey, _ knownHosts: KnownHosts) -> String {
        knownHosts.name(of: key).map { String(quoted: $0, limit: 60) }
            ?? "\(key.fingerprint), which is not in known_hosts,"
    }
}
