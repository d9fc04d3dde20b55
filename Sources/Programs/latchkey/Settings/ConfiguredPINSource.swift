import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeyServices
import Synchronization

/// The configured source of PINs. Opens it at the first prompt and keeps it open, because a file
/// has one PIN per line.
final class ConfiguredPINSource: PresenceAuthority {
    private let source: PINSource?
    private let environment: [String: String]
    private let opened = Mutex<(any PresenceAuthority)?>(nil)

    init(_ source: PINSource?, environment: [String: String]) {
        (self.source, self.environment) = (source, environment)
    }

    var isInteractive: Bool {
        switch source ?? .standard {
        case .terminal, .pinentry: true
        case .descriptor, .file: false
        }
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await authority().pin(request)
    }

    /// Shows the notice on the terminal if the tool prompts for PINs there, otherwise on standard
    /// error.
    func notice(_ notice: PresenceNotice) async {
        switch source ?? .standard {
        case .terminal: try? await authority().notice(notice)
        // The authority would write to descriptor 2, whose output may be discarded while a token's
        // module runs.
        case .pinentry, .descriptor, .file: StandardStreams.writeError(notice.sentence)
        }
    }

    private func authority() throws(KeystoreError) -> any PresenceAuthority {
        try opened.withLock { opened throws(KeystoreError) in
            try source?.checkDescriptor()
            if source == .descriptor(STDIN_FILENO) { try Self.checkInput() }
            if let opened { return opened }
            let authority = try (source ?? .standard).authority(environment: environment)
            opened = authority
            return authority
        }
    }

    private static func checkInput() throws(KeystoreError) {
        guard !StandardStreams.isInputRead else {
            throw KeystoreError(
                code: .unavailable,
                reason: "standard input contains the data and cannot be the source of PINs",
                recovery: "Use another descriptor for the PINs: --pin-source fd:3, with 3<file.")
        }
    }
}

/// Reports the progress of a fingerprint prompt.
enum FingerNotice {
    /// - Parameter prompt: The broker's text about the program and its reason.
    static func show(_ progress: FingerProgress, _ prompt: String, on console: Console) {
        switch progress {
        case .queued:
            console.say("Another program uses the fingerprint reader. This prompt is next.")
        case .waiting: console.say("\(prompt) Touch the fingerprint reader.")
        case .retry: console.say("The finger could not be read. Touch the reader again.")
        case .swipeTooShort: console.say("The swipe was too short. Swipe again.")
        case .centreFinger:
            console.say("Put the finger on the middle of the reader, and touch it again.")
        case .removeFinger: console.say("Take the finger off the reader, and touch it again.")
        case .notMatched: console.say("The finger does not match your enrolled fingers.")
        case .matched, .withdrawn: break
        }
    }
}
