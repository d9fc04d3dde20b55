internal import FoundationEssentials
package import Latchkey

extension TokenAdministrator {
    /// Erases the token, names it, and gives its security officer and its user their PINs.
    ///
    /// Asks for the security officer's PIN (the one that is set, where the token was initialised before; else a new one),
    /// then for the user's new PIN. Where the URI fits several tokens of which one is not initialised, that one is
    /// meant.
    ///
    /// - Parameters:
    ///   - label: 1 to 32 bytes of UTF-8.
    ///   - isErasing: Whether a token that is initialised may be erased, with all keys on it.
    /// - Returns: What the token says of itself now; its serial number may be another than before.
    /// - Throws: `KeystoreError`; `conflict` for a token that is initialised and may not be erased, `wrongProof`,
    ///   `unsupported`.
    package func initialize(label: String, erasing isErasing: Bool = false) async throws(KeystoreError)
        -> TokenInformation
    {
        let operation = "initialise the token"
        guard (1...32).contains(label.utf8.count), !label.unicodeScalars.contains(where: { $0.value < 32 }) else {
            throw .invalidInput(operation, "a label has 1 to 32 bytes and no control character")
        }
        let entry = try await blankEntry(operation)
        guard ModuleProfile(for: entry.module).family != .ykcs11 else {
            throw .unsupported(
                operation, "a YubiKey comes initialised, and has a reset instead",
                recovery: "Run ‘ykman piv reset’, which erases all its PIV keys, and change its PINs.")
        }
        let isUsed = entry.information.flags.contains(.initialized)
        guard !isUsed || isErasing else {
            throw .conflict(
                operation, "it is initialised already, as ‘\(entry.information.label)’",
                recovery: "Say --erase to lose everything on it for good.")
        }
        let officer = try await proof(
            isUsed ? .securityOfficer : .new, of: entry,
            to: isUsed ? "erase the token" : "set the security officer's PIN")
        let user = try await newProof(for: entry, to: "set the token's PIN")
        try await initialize(operation, entry, label: label, securityOfficer: officer)
        let made = try await freshEntry(operation, label: label, before: entry)
        try await administer(operation, on: made, as: .securityOfficer, officer) { (session) throws(CryptokiError) in
            try session.initializePIN(user)
        }
        return try await freshEntry(operation, label: label, before: made).information
    }

    /// The one token that the URI fits, or among several the one that is not initialised.
    private func blankEntry(_ operation: String) async throws(KeystoreError) -> TokenDirectory.Entry {
        let fitting = try await entries(operation)
        let blank = fitting.filter { !$0.information.flags.contains(.initialized) }
        guard blank.count == 1, let only = blank.first, fitting.count > 1 else { return try await entry(operation) }
        return only
    }

    /// The token that has just been initialised: modules may give it a new serial number and a new slot.
    private func freshEntry(
        _ operation: String, label: String, before: TokenDirectory.Entry
    ) async throws(KeystoreError) -> TokenDirectory.Entry {
        let directory = await TokenDirectory.read(configured: false, paths: [before.modulePath], options: options.token)
        let named = directory.tokens.filter {
            $0.information.label == label && $0.information.flags.contains(.initialized)
                && $0.information.model == before.information.model
        }
        let same = named.filter { $0.information.serial == before.information.serial }
        let fitting = same.isEmpty ? named.filter { !$0.information.flags.contains(.userPINInitialized) } : same
        guard let entry = fitting.first else {
            throw KeystoreError(CryptokiError(.tokenAbsent, reason: "it is gone"), during: operation)
        }
        guard fitting.count == 1 else { throw ambiguous(operation, fitting) }
        return entry
    }
}
