import Latchkey
import LatchkeyLogin
import LatchkeyPresence
import LatchkeyTPM
import LatchkeyVault

/// A user's login and notes on this machine.
struct Notebook {
    /// The store's profile: the notes have their own file.
    private static let profile = "notes"

    private let records: RecordContainer
    private let container: Container
    private let space: VaultSpace
    private var notes: Vault<[String]>

    /// - Parameter environment: `LATCHKEY_ENDPOINT` and `LATCHKEY_CLIENT_ID` select the server,
    ///   `LATCHKEY_TCTI` the TPM, `LATCHKEY_PIN_SOURCE` the source of PINs, and `BROWSER` the
    ///   browser.
    init(environment: [String: String]) async throws {
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: Self.profile
        )
        records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store))
        let source = try PINSource(named: environment["LATCHKEY_PIN_SOURCE"])
        let presence = try source.authority(environment: environment)

        container = try Container(
            ContainerConfiguration(
                endpoint: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:3000",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "notes"),
            records: records, presence: presence,
            browser: SystemBrowser(environment: environment) { print($0) })
        space = try VaultSpace(records: records, presence: presence, policy: .pin)
        try await VaultSpace.bootstrap(space)
        notes = VaultFactory.retrieveVault(key: "notes")
    }

    /// The state of the notes, in one line.
    ///
    /// - Throws: The reason why the stored notes can't be unlocked.
    var state: String {
        get throws {
            switch notes {
            case .empty, .emptyWithBiometrics: return "There are no notes yet."
            case .locked(let vault):
                if let failure = vault.failure { throw failure }
                return "The notes are locked."
            case .keychain, .keychainUpgradable, .biometrics: return "The notes are open."
            }
        }
    }

    /// Logs in with the key. Without a key, logs in in the browser and creates a key.
    ///
    /// - Returns: The name of the user.
    func logIn() async throws -> String {
        let user: UserInfo
        if try await container.isBiometricEnabled() {
            user = try await container.authenticateBiometric().userInfo
        } else {
            user = try await container.authorize().userInfo
            try await container.enableBiometric(policy: .pin)
        }
        return user.preferredUsername ?? user.userID
    }

    /// The name of the user, from the server.
    func whoAmI() async throws -> String {
        let user = try await container.fetchUserInfo()
        return user.preferredUsername ?? user.userID
    }

    /// Ends the session and locks the notes. The notes belong to this machine: their PIN opens them
    /// also without a login.
    mutating func logOut() async throws {
        lock()
        try await container.logout()
    }

    /// Locks the notes when the user's session locks or the machine sleeps, until the task is
    /// cancelled.
    func followSession() async throws { try await SessionLockObserver().run(locking: [records]) }

    /// Adds a note.
    ///
    /// - Returns: The number of notes.
    mutating func write(_ note: String) async throws -> Int {
        let all = try await read() + [note]
        notes =
            if notes.isStored {
                try await notes.update(credentials: all)
            } else {
                try await notes.storeToBiometrics(credentials: all)
            }
        return all.count
    }

    /// The notes, unlocked first if they are locked.
    mutating func read() async throws -> [String] {
        // After the session locks, the vault is closed, but `notes` is still `.biometrics`.
        // `wrap()` returns the new case.
        if case .biometrics(let vault) = notes { notes = vault.wrap() }
        guard notes.isStored else { return [] }
        if case .locked(let vault) = notes { notes = try await unlock(vault).wrap() }
        return try notes.credentials
    }

    /// Unlocks the notes. During a lockout, the owner can lift the lockout with a stronger proof if
    /// the hardware has one.
    private func unlock(
        _ vault: LockedBiometricsSecureVault<[String]>
    ) async throws -> BiometricsSecureVault<[String]> {
        do throws(KeystoreError) {
            return try await vault.unlock()
        } catch {
            guard error.code == .lockedOut, try await vault.reauthenticateOwner() else {
                throw error
            }
            return try await vault.unlock()
        }
    }

    /// Retrieves the notes again, after another program has changed them or started over.
    mutating func retrieve() async throws {
        try await space.open()
        notes = VaultFactory.retrieveVault(key: "notes")
    }

    /// Locks the notes.
    mutating func lock() {
        if case .biometrics(let vault) = notes { notes = vault.lock().wrap() }
    }

    /// Deletes the notes, also if they can't be read.
    mutating func erase() async throws {
        notes = try await notes.reset()
    }

    /// Archives the login and the notes, for example if the store comes from another machine.
    /// Afterwards, create a new notebook.
    ///
    /// - Returns: The path of the archive.
    static func startOver(environment: [String: String]) async throws -> String {
        try await RecordStore.startOver(
            directory: RecordStore.defaultDirectory(environment: environment), profile: profile)
    }
}

extension Vault {
    /// Whether the vault is not empty.
    fileprivate var isStored: Bool {
        switch self {
        case .empty, .emptyWithBiometrics: false
        case .keychain, .keychainUpgradable, .biometrics, .locked: true
        }
    }
}
