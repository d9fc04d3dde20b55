package import Latchkey

/// Prompts the user for the use of a passkey. One prompt is shown at a time.
///
/// A prompt ends when its task is cancelled: another device was used, or 30 seconds have passed.
/// Close it at once.
package protocol PasskeyPrompt: Sendable {
    /// Shows what is requested, and waits for the user's choice. For several accounts the user
    /// chooses one.
    ///
    /// If ``verification(for:)`` shows its own prompt that states the same and offers the same
    /// choices, return ``PasskeyChoice/use(_:)`` at once.
    ///
    /// - Parameter promptsForPIN: Whether the verification of a login requests the PIN, in addition
    ///   to a fingerprint if the policy permits both. If it returns false, the verification may
    ///   request only a fingerprint, which shows no text. Uses the hardware.
    func choose(
        _ question: PasskeyQuestion, promptsForPIN: @Sendable () async -> Bool
    ) async -> PasskeyChoice

    /// The authority that obtains the fingerprint or PIN after the user chose to use the passkey.
    func verification(for question: PasskeyQuestion) -> any PresenceAuthority

    /// Which choice the user made when the authority of ``verification(for:)`` reported that the
    /// user declined. A choice `use` counts as `no`.
    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice

    /// Whether a prompt can be shown here. If not, the authenticator reports that it cannot verify
    /// users.
    func canPrompt() async -> Bool

    /// Tells the user why a request failed that the user had accepted. Returns soon.
    func report(_ error: KeystoreError, of question: PasskeyQuestion) async

    /// Attracts the user's attention to this device. Returns soon.
    func wink() async
}

extension PasskeyPrompt {
    package func wink() async {}
}

/// The choice of the user.
package enum PasskeyChoice: Hashable, Sendable {
    /// Use this computer, with the account at this index in ``PasskeyQuestion/accounts``; 0 if
    /// there are no accounts.
    case use(Int)
    /// Use another device: this computer stays silent until the client ends the request.
    case notHere
    /// Refuse the request.
    case no
}

/// The content of a prompt. Texts from the site are reduced to one line; they are the client's
/// claims.
package struct PasskeyQuestion: Hashable, Sendable {
    /// The kind of request.
    package enum Purpose: Hashable, Sendable {
        /// Create a passkey. `replaces` is whether it replaces the account's existing one.
        case create(replaces: Bool)
        /// Log in with one of ``PasskeyQuestion/accounts``.
        case signIn
        /// The site refuses a second passkey on this computer: tell the user that one exists.
        case alreadyRegistered
        /// The program has several devices, and the user selects one of them. Nothing is used.
        case selectDevice
    }

    /// The kind of request.
    package let purpose: Purpose
    /// The site; nil for `selectDevice`.
    package let site: String?
    /// The accounts to choose from: one for `create`, one or more for `signIn`.
    package let accounts: [String]
    /// Whether the site also receives PRF outputs, with which it encrypts data.
    package let usesPRF: Bool
    /// The programs that have opened the device, if they are known.
    package let openers: DeviceOpeners?
    /// When the request times out.
    package let timeLimit: Duration

    /// The site for a text, in quotation marks: at most 64 characters, and the end of a longer
    /// name, because the end of a domain names its owner. The application of an SSH key keeps its
    /// beginning, which no domain has. The presence broker shows 120 characters of a text, and a
    /// prompt for a PIN 200.
    package var place: String {
        guard let site else { return "a site" }
        return String(
            quoted: site.hasPrefix("ssh:")
                ? String(oneLine: site, limit: 64) : String(oneLine: site, endLimit: 64))
    }

    /// The end of "Latchkey asks for your PIN to …", for the chosen account.
    package func reason(account index: Int) -> String {
        let account =
            accounts.indices.contains(index)
            ? " as \(String(quoted: accounts[index], limit: 64))" : ""
        let requester = openers.map { " (requested by \($0.requester))" } ?? ""
        return switch purpose {
        case .create: "create a passkey for \(place)\(account)\(requester)"
        case .signIn: "log in to \(place)\(account)\(requester)"
        case .alreadyRegistered: "confirm that \(place) has a passkey on this computer\(requester)"
        case .selectDevice: "use this computer\(requester)"
        }
    }
}

/// The processes that have opened the device, with their names. A hint, not a proof: a program
/// chooses its name, and can hide. They are counted by processes, whose numbers a program cannot
/// choose.
package struct DeviceOpeners: Hashable, Sendable {
    package let names: [Int32: String]

    package init(_ names: [Int32: String]) { self.names = names }

    package var processes: Set<Int32> { Set(names.keys) }
    package var count: Int { names.count }
    package var isOne: Bool { count == 1 }
    /// At most three names, in quotation marks that a name cannot end.
    package var quoted: String {
        String(quoted: names.values.sorted().prefix(3).joined(separator: ", "), limit: 100)
    }

    /// The program, or that it is one of several.
    fileprivate var requester: String {
        isOne ? quoted : "one of \(count) programs: \(quoted)"
    }

    /// These processes, and later ones.
    func union(_ later: DeviceOpeners?) -> DeviceOpeners {
        DeviceOpeners(names.merging(later?.names ?? [:]) { name, _ in name })
    }
}
