import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyServices
import LatchkeyTPM

/// Checks everything that a key requires: store, hardware, user verification and server.
struct Diagnostics {
    let context: CommandContext

    /// The checks if the programs do not accept the settings.
    static func checks(without error: KeystoreError) -> [Check] {
        [
            .problem("settings", error),
            .warning(
                PolicyDiagnostics.name,
                "The settings cannot be read, so the minimum policy is not known.",
                advice: "See the check ‘settings’."),
        ]
    }

    func checks() async -> [Check] {
        let (store, finding) = await store()
        var checks = [administratorsSettings(), finding]
        let readers = ReaderDiagnostics()
        if let uri = context.settings.token {
            checks += await TokenDiagnostics(
                uri: uri, options: context.settings.tokenOptions, readers: readers
            )
            .checks()
        } else {
            let hardware = await hardware(store)
            checks += hardware
            // A TPM or broker that cannot be used has one problem, with one next step.
            let isUsable = hardware.allSatisfy { $0.name != "tpm" || $0.state != .problem }
            let broker = isUsable ? await broker() : nil
            if broker == nil, let own = await userPIN(store) { checks.append(own) }
            checks.append(modules())
            if let broker { checks.append(broker) }
            checks.append(await finger(broker))
            if isUsable {
                checks.append(
                    await AttestationDiagnostics(context: context).check(hasStore: store != nil))
            }
        }
        checks.append(await PolicyDiagnostics(context: context).check())
        checks.append(pinSource())
        if let agent = await AgentDiagnostics(context: context).check(store) {
            checks.append(agent)
        }
        checks.append(await PasskeyDiagnostics().check())
        checks.append(SignInDiagnostics().check())
        checks.append(await ServerDiagnostics(settings: context.settings).check())
        return checks
    }

    /// The settings that the administrator of this machine has made for all users.
    private func administratorsSettings() -> Check {
        func list(_ values: [Setting: String]) -> String {
            let names = Setting.allCases.filter { values[$0] != nil }.map(\.rawValue)
            return names.isEmpty ? "no setting" : names.joined(separator: ", ")
        }
        let file = context.settings.values.administrators
        let finding =
            file.map {
                "The administrator's file \($0.path) sets \(list($0.values)), and fixes \(list($0.fixed))."
            } ?? "There is no administrator's file \(SettingsFile.administrators)."
        let unread = SettingsFile.namesLikeAdministrators()
        guard unread.isEmpty else {
            return .warning(
                "settings", "\(finding) No program reads \(unread.joined(separator: ", ")).",
                advice: "Ask an administrator to rename or remove what is not read.")
        }
        return .ok("settings", finding)
    }

    /// Checks the store. Does not create one.
    private func store() async -> (RecordStore?, Check) {
        let directory = context.settings.store
        do throws(KeystoreError) {
            let store = try await context.store()
            guard store.isMissing else {
                return (store, writing(to: store) ?? .ok("store", "The store is \(store.path)."))
            }
            let place = nearestDirectory(to: directory)
            guard access(place, W_OK | X_OK) == 0 else {
                return (
                    nil,
                    .problem(
                        "store",
                        "There is no store at \(directory), and it cannot be created: \(place) is not writable.",
                        advice:
                            "Make it writable for your user, or set another directory with --store.",
                        code: .unavailable)
                )
            }
            try WriteRehearsal.run(in: place)
            return (
                nil,
                .ok(
                    "store",
                    "There is no store at \(directory) yet. The first key or secret that is stored creates it."
                )
            )
        } catch {
            return (nil, .problem("store", error))
        }
    }

    /// The problem that prevents the storing of a key; nil if there is none.
    private func writing(to store: RecordStore) -> Check? {
        do throws(KeystoreError) {
            try store.checkWritable()
            let file = store.path
            try WriteRehearsal.run(in: String(file[..<(file.lastIndex(of: "/") ?? file.endIndex)]))
            return nil
        } catch {
            return .problem("store", error)
        }
    }

    /// The directory itself, or the nearest one above it that exists.
    private func nearestDirectory(to path: String) -> String {
        var place = URL(filePath: path)
        while place.path != "/", access(place.path, F_OK) != 0 { place.deleteLastPathComponent() }
        return place.path
    }

    private func hardware(_ store: RecordStore?) async -> [Check] {
        let device = DeviceDiagnostics(context.settings)
        if let problem = device?.problem() { return [problem] }
        let warnings = [device?.warning()].compactMap(\.self)
        do throws(KeystoreError) {
            let anchors: any TrustAnchors = store ?? MemoryTrustAnchors()
            let diagnosis = try await TPMKeystore(tcti: context.settings.tcti, anchors: anchors)
                .diagnose()
            return [tpm(diagnosis)] + warnings
                + [
                    storageRootKey(diagnosis), lockout(diagnosis), lockoutPassword(diagnosis),
                    await revocation(diagnosis, store),
                ]
        } catch {
            return [.problem("tpm", error)] + warnings
        }
    }

    /// Reports whether keys can be created and used. The check of the storage root key reports its
    /// own problems.
    private func tpm(_ diagnosis: TPMDiagnosis) -> Check {
        if let obstacle = diagnosis.obstacle, storageRootKey(diagnosis).state != .problem {
            return .problem("tpm", obstacle)
        }
        let kind =
            switch diagnosis.identity.kind {
            case .software:
                "a software TPM, which protects keys no better than the machine on which it runs"
            case .virtual(let host):
                "a virtual TPM of \(host), whose operator can read its keys"
            case .microsoft:
                "Microsoft's implementation, which is in firmware, in a virtual machine or a simulator"
            case .other: "a TPM of this manufacturer, which only an attestation proves"
            }
        return .ok("tpm", "\(diagnosis.identity.description) answers; it reports to be \(kind).")
    }

    private func storageRootKey(_ diagnosis: TPMDiagnosis) -> Check {
        let name = "srk"
        if diagnosis.pin == .different {
            return .problem(
                name, "The store's keys belong to another TPM, or this TPM was cleared.",
                advice:
                    "Use the TPM that created them, or another store with --store DIR. To archive and empty this one: latchkey store reset.",
                code: .wrongDevice)
        }
        switch diagnosis.storageRootKey {
        case .present: return .ok(name, "The storage root key is present.")
        case .absent, .foreign:
            if diagnosis.isOwnerPasswordSet, diagnosis.storageRootKey == .foreign {
                return .problem(
                    name,
                    "Another program's key has the handle of the storage root key, and the TPM's owner has a password.",
                    advice:
                        "Ask an administrator to remove the password, entering it with Return and Ctrl-D, so that Latchkey can "
                        + "derive its key: \(TPMDiagnosis.removeOwnerPasswordCommand)\(tctiOption)",
                    code: .unavailable)
            }
            guard !diagnosis.isOwnerPasswordSet else {
                return .problem(
                    name, "There is no ECC storage root key, and the TPM's owner has a password.",
                    advice:
                        "Ask an administrator to create it, entering the password twice, each time with Return and Ctrl-D: "
                        + TPMDiagnosis.storageRootKeyCommand(tctiOption),
                    code: .unavailable)
            }
            guard diagnosis.storageRootKey == .foreign else {
                return .ok(name, "There is no storage root key. The next new key creates it.")
            }
            return .warning(
                name,
                "Another program's key has the handle of the storage root key, so each operation creates its own.",
                advice: "No action is required. Operations are slower.")
        }
    }

    /// The option that directs a program of tpm2-tools to another TPM than its default; empty for
    /// the default.
    var tctiOption: String {
        let tcti = context.settings.tcti
        guard tcti != TPMKeystore.defaultTCTI else { return "" }
        return " -T '\(tcti.replacing("'", with: "'\\''"))'"
    }

    private func revocation(_ diagnosis: TPMDiagnosis, _ store: RecordStore?) async -> Check {
        let name = "revocation"
        let isPending = await hasPendingRevocations(store)
        let pending =
            "Revocation of deleted or replaced keys is pending: copies of the store can still use them."
        guard !diagnosis.isOwnerPasswordSet else {
            return .warning(
                name,
                "The TPM's owner has a password, so new keys are not revocable, and existing revocable keys cannot be "
                    + "removed until the owner removes the password (a PIN change still works)."
                    + (isPending ? " \(pending)" : ""),
                advice:
                    "Keep no copies of the store, or ask the owner to remove the password before you enable or enrol."
            )
        }
        guard !isPending else {
            return .warning(
                name, pending,
                advice:
                    "The next command that opens a vault, enables or disables the login, or starts the locker tries again. "
                    + "If this warning stays, keep no copies of the store.")
        }
        guard diagnosis.hasPlaceForRevocable else {
            return .warning(
                name,
                "The TPM has no space left for revocable keys, so new keys are not revocable.",
                advice: "Delete unused keys, logins and lockers: latchkey key list --all.")
        }
        return .ok(name, "The TPM can revoke keys in all copies of the store.")
    }

    /// Whether the container has a pending revocation. The check of the store reports a store that
    /// cannot be read.
    private func hasPendingRevocations(_ store: RecordStore?) async -> Bool {
        guard store != nil else { return false }
        return (try? await context.records().hasPendingRevocations) ?? false
    }

    /// Checks the user's own counter of wrong PINs, which the next new key with a PIN needs too.
    private func userPIN(_ store: RecordStore?) async -> Check? {
        let name = "user-pin"
        do throws(KeystoreError) {
            guard let status = try await userPINStatus(store) else { return nil }
            guard !status.isLockedOut else {
                return .problem(
                    name,
                    "The TPM no longer accepts your PIN after too many wrong PINs, so it creates no key with a PIN.",
                    advice:
                        "Use your finger, or ask an administrator to reset the counter, or to remove a PIN that you forgot; see "
                        + "‘man latchkey-presenced’.",
                    code: .lockedOut)
            }
            guard let left = status.attemptsLeft else {
                return .ok(name, "You have your own counter of wrong PINs.")
            }
            return .ok(
                name,
                "You have your own counter of wrong PINs; it locks after \(left) more in a row.")
        } catch {
            return .warning(name, "\(error)", advice: error.advice)
        }
    }

    private func userPINStatus(_ store: RecordStore?) async throws(KeystoreError) -> PINStatus? {
        guard store == nil else {
            return try await context.userPINStatus(in: context.records())
        }
        return try await TPMKeystore(tcti: context.settings.tcti, anchors: MemoryTrustAnchors())
            .userPINStatus(through: context.presence)
    }

    /// Checks the presence broker: where it is installed, no key with a PIN or finger is created
    /// without its answer.
    ///
    /// - Returns: nil if it answers, or is not installed.
    private func broker() async -> Check? {
        guard let approvals = context.presence.broker?.approvals else { return nil }
        do throws(KeystoreError) {
            _ = try await TPMKeystore(tcti: context.settings.tcti, anchors: MemoryTrustAnchors())
                .terms(of: approvals, .pin)
            return nil
        } catch {
            return .problem("broker", error)
        }
    }

    private func finger(_ problem: Check?) async -> Check {
        let name = "finger"
        guard problem == nil else {
            return .warning(
                name, "No fingerprint can be checked, because the presence broker does not work.",
                advice: "See the check ‘broker’.")
        }
        let broker = context.presence.broker
        switch await broker?.fingerState() {
        case .ready?:
            return .ok(name, "The presence broker answers, and you have a finger enrolled.")
        case .notEnrolled?:
            return .warning(
                name, "There is a fingerprint reader, but you have no finger enrolled.",
                advice: "Run fprintd-enroll.")
        case .lockedOut(let until)?:
            let time = until.map { " until \($0.formatted(.iso8601))" } ?? ""
            return .warning(
                name,
                "The broker accepts no finger\(time) after too many fingers that did not match.",
                advice: "Wait, or use your PIN.")
        case .notAvailable(let why)?:
            return .warning(
                name, "No fingerprint can be checked: \(why).",
                advice:
                    "Connect a reader, and install fprintd and latchkey-presenced. If the reader worked before the machine "
                    + "slept: sudo systemctl restart fprintd. PINs work without them."
            )
        case nil:
            return .warning(
                name,
                "No fingerprint can be checked: this program does not use the presence broker.",
                advice: "Use your PIN.")
        }
    }

    /// Lists the PKCS#11 modules. Without --token, no command depends on them.
    private func modules() -> Check {
        let names = TokenDirectory.configuredModuleNames
        guard !names.isEmpty else {
            return .ok(
                "tokens", "No token is configured, and the p11-kit configuration has no modules.")
        }
        return .ok(
            "tokens",
            "No token is configured; the p11-kit configuration has \(names.joined(separator: ", "))."
        )
    }

    private func pinSource() -> Check {
        if let obstacle = context.pinObstacle() {
            return .warning("pin-source", "\(obstacle)", advice: obstacle.advice)
        }
        return .ok("pin-source", "PINs come from \(context.settings.pinSource ?? .standard).")
    }
}
