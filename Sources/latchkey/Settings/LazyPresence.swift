import Latchkey
import LatchkeyPresence
import Synchronization

/// The configured PIN source, opened when the first PIN is asked for and kept, since a file's lines are read in order.
final class LazyPresence: PresenceAuthority {
    private let source: PINSource?
    private let environment: [String: String]
    private let opened = Mutex<(any PresenceAuthority)?>(nil)

    /// - Parameter source: nil for the terminal if there is one, else pinentry.
    init(source: PINSource?, environment: [String: String]) {
        self.source = source
        self.environment = environment
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await authority().pin(request)
    }

    /// Shown where PINs are asked for. Where nobody can be asked for a PIN there is nobody to tell either.
    func notice(_ notice: PresenceNotice) async {
        try? await authority().notice(notice)
    }

    private func authority() throws(KeystoreError) -> any PresenceAuthority {
        try opened.withLock { opened throws(KeystoreError) in
            if let opened { return opened }
            if case .descriptor(let number) = source, !InheritedDescriptors.contains(number) {
                throw KeystoreError(
                    operation: "ask for the PIN", code: .invalidInput,
                    reason: "no descriptor \(number) was open from the start",
                    recovery: "Open it (fd:3 goes with 3<file), or name another source with --pin-source.")
            }
            let authority = try (source ?? .standard).authority(environment: environment)
            opened = authority
            return authority
        }
    }
}
