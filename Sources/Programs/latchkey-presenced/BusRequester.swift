import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence

/// The requester, as shown to the user. The bus reports the user and the process id. The rest comes
/// from the requester: a process chooses its own name, and a service that is not root cannot see
/// which program it executes.
struct BusRequester: Hashable, Sendable {
    let client: String
    let user: UInt32
    /// The user's name, which fprintd and PAM use.
    let userName: String?
    let process: Int32?
    /// The name that the process gives itself.
    let claimedName: String?

    init(client: String, _ credentials: BusCredentials) {
        self.client = client
        user = credentials.user
        userName = Account.name(of: credentials.user)
        process = credentials.process
        claimedName = credentials.process.flatMap {
            Self.claimedName(of: $0, ofUser: credentials.user)
        }
    }

    /// The text of the prompt: `Process 4711 of alice, which calls itself “latchkey”, asks for a
    /// finger of alice. Its reason: “log in” (container “default”).` The quoted texts come from the
    /// requester.
    ///
    /// - Parameter usesPRF: Whether the finger approves several uses, which only a login with PRF
    ///   needs.
    func prompt(_ context: PromptContext, usesPRF: Bool = false) -> String {
        "\(asks)\(usesPRF ? ", to log in with PRF" : ""). "
            + "Its reason: \(String(quoted: context.reason, limit: 120)) "
            + "(container \(String(quoted: context.container, limit: 60)))."
    }

    /// The text for an app that uses no key: `Process 4711 of alice, which calls itself “notes”, asks
    /// for a finger of alice. Its reason: “show the recovery codes”.`
    func prompt(_ statement: OwnerStatement) -> String {
        "\(asks). Its reason: \(String(quoted: statement.reason, limit: 120))."
    }

    private var asks: String {
        let owner = String(oneLine: userName ?? "user \(user)", limit: 40)
        let origin = process.map { "Process \($0) of \(owner)" } ?? "A program of \(owner)"
        let name =
            claimedName.map { ", which calls itself \(String(quoted: $0, limit: 40))," } ?? ""
        return "\(origin)\(name) asks for a finger of \(owner)"
    }

    /// The text of a sign-in: `Process 4711 asks for a finger of alice, to sign in. Its service of PAM
    /// is “sudo”, its terminal “/dev/pts/1”.` The quoted texts come from the program.
    ///
    /// - Parameter program: nil for a change of the record of the sign-in.
    func prompt(_ program: SignInService.Program?) -> String {
        guard let program else { return "\(asks), to enable the sign-in with it." }
        let owner = String(oneLine: userName ?? "user \(user)", limit: 40)
        let origin = process.map { "Process \($0)" } ?? "A program"
        return "\(origin) asks for a finger of \(owner), to sign in. Its service of PAM is "
            + "\(String(quoted: program.service, limit: 64)), its terminal "
            + "\(String(quoted: program.terminal, limit: 64))."
    }

    var isAccount: Bool { Self.isAccount(user, name: userName) }

    /// Whether the user is root or has an account, and is not a service. Only these users can
    /// allocate TPM memory (systemd, "Users, Groups, UIDs and GIDs on systemd Systems"; Debian
    /// Policy, section 9.2.2).
    static func isAccount(_ user: UInt32, name: String?) -> Bool {
        guard name != nil else { return false }
        return switch user {
        case 0: true
        // System users; systemd's dynamic service users; the overflow user; the invalid user id.
        case 1..<1000, 61184...65519, 65534, 65535: false
        default: true
        }
    }

    /// The process's name from `/proc`, if the process still belongs to the user: its id may belong
    /// to another process by now. Name and user come from one read.
    private static func claimedName(of process: Int32, ofUser user: UInt32) -> String? {
        let status = ProcessStatus(process)
        return status?.users.contains(user) == true ? status?.name : nil
    }
}

/// What the kernel states about a process in `/proc`, from one read.
private struct ProcessStatus {
    /// The name that the process gives itself.
    let name: String?
    /// The real user, the effective one, and others.
    let users: [UInt32]
    let parent: Int32?

    /// - Returns: nil if the process has ended.
    init?(_ process: Int32) {
        guard let bytes = FileManager.default.contents(atPath: "/proc/\(process)/status") else {
            return nil
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        func value(_ field: String) -> Substring? {
            lines.first { $0.hasPrefix("\(field):\t") }?.dropFirst(field.count + 2)
        }
        name = value("Name").map(String.init)
        users = value("Uid")?.split(separator: "\t").compactMap { UInt32($0) } ?? []
        parent = value("PPid").flatMap { Int32($0) }
    }
}

extension PeerCredentials {
    /// The user who started the process: ``user`` is the effective one, which is root for setuid
    /// programs. nil if the process has ended. Its id can then belong to another process, but the
    /// answer reaches only those that have the connection.
    var realUser: UInt32? { ProcessStatus(process)?.users.first }
    /// The process that started this one, if it still runs.
    var parent: Int32? { ProcessStatus(process)?.parent }
}
