import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyTPM

/// Looks at everything that a key needs, from the hardware up.
struct Examination {
    let context: CommandContext

    func checks() async -> [Check] {
        let (store, finding) = await store()
        var checks = [finding]
        let readers = ReaderExamination()
        if let uri = context.settings.token.uri {
            checks += await TokenExamination(uri: uri, options: context.settings.token.options, readers: readers)
                .checks()
        } else {
            checks += await hardware(store)
            if let own = await userPIN(store) { checks.append(own) }
            checks.append(modules())
            checks.append(await finger())
        }
        checks.append(pinSource())
        checks.append(await ServerExamination(settings: context.settings).check())
        return checks
    }

    /// The store, where there is one. None is made for being looked at.
    private func store() async -> (RecordStore?, Check) {
        let directory = context.settings.store
        guard RecordStore.isPresent(directory: directory) else {
            let place = nearestDirectory(to: directory)
            guard access(place, W_OK | X_OK) == 0 else {
                return (
                    nil,
                    .problem(
                        "store", "There is no store at \(directory), and none can be made: \(place) is not writable.",
                        "Make it writable for your user, or name another directory with --store.", .unavailable)
                )
            }
            return (nil, .ok("store", "There is no store at \(directory) yet; it is made when it is first used."))
        }
        do throws(KeystoreError) {
            let store = try await context.store()
            return (store, .ok("store", "The store is \(store.path)."))
        } catch {
            return (nil, .problem("store", error))
        }
    }

    /// The directory itself, or the nearest one above it that exists.
    private func nearestDirectory(to path: String) -> String {
        var place = URL(filePath: path)
        while place.path != "/", access(place.path, F_OK) != 0 { place.deleteLastPathComponent() }
        return place.path
    }

    private func hardware(_ store: RecordStore?) async -> [Check] {
        let device = DeviceExamination(tcti: context.settings.tcti)
        if let problem = device?.problem() { return [problem] }
        let warnings = [device?.warning()].compactMap(\.self)
        do throws(KeystoreError) {
            let anchors: any TrustAnchors = store ?? MemoryTrustAnchors()
            let diagnosis = try await TPMKeystore(tcti: context.settings.tcti, anchors: anchors).diagnose()
            return [tpm(diagnosis)] + warnings
                + [storageRootKey(diagnosis), lockout(diagnosis), await revocation(diagnosis, store)]
        } catch {
            return [.problem("tpm", error)] + warnings
        }
    }

    private func tpm(_ diagnosis: TPMDiagnosis) -> Check {
        guard diagnosis.hasP256 else {
            return .problem(
                "tpm", "\(diagnosis.identity.description) can't sign with P-256 and SHA-256.", "Use another TPM.",
                .unsupported)
        }
        let kind = diagnosis.identity.isSimulated ? "a simulator: it protects keys from nobody" : "hardware"
        return .ok("tpm", "\(diagnosis.identity.description) answers; it is \(kind).")
    }

    private func storageRootKey(_ diagnosis: TPMDiagnosis) -> Check {
        let name = "srk"
        if diagnosis.pin == .different {
            return .problem(
                name, "The store's keys belong to another TPM, or this one was cleared since.",
                "Use the TPM with which they were made, or begin anew with another --store.", .wrongDevice)
        }
        switch diagnosis.storageRootKey {
        case .present: return .ok(name, "The storage root key is in its place.")
        case .absent, .foreign:
            guard !diagnosis.isOwnerPasswordSet else {
                return .problem(
                    name, "There is no storage root key for ECC, and the owner's password is set.",
                    "Have an administrator provision the key at 0x81000001 (tpm2_createprimary, tpm2_evictcontrol).",
                    .unavailable)
            }
            guard diagnosis.storageRootKey == .foreign else {
                return .ok(name, "There is no storage root key yet; it is made with the first key.")
            }
            return .warning(
                name, "Another program's key is where the storage root key belongs; each operation makes its own.",
                "Nothing need be done; it works, more slowly.")
        }
    }

    private func lockout(_ diagnosis: TPMDiagnosis) -> Check {
        let status = diagnosis.pinStatus
        guard !status.isLockedOut else {
            let until = status.lockedOutUntil.map { " until \($0.formatted(.iso8601)) at the latest" } ?? ""
            return .warning(
                "lockout",
                "It takes no PIN\(until): too many were wrong. Logins, vaults with biometrics and revocable keys can't be"
                    + " made meanwhile either.",
                "Leave the machine on and wait, or have whoever knows the lockout password end it"
                    + " (tpm2_dictionarylockout --clear-lockout); keys without a PIN still work.")
        }
        guard diagnosis.isLockoutPasswordSet else {
            return .warning(
                "lockout",
                "The TPM's lockout password is empty: every user of the TPM can reset the count of wrong PINs. A new PIN must "
                    + "have at least \(TPMKeystore.minimumPINCharacters) characters.",
                "Have an administrator set the password, and end it with Return and Ctrl-D: "
                    + TPMDiagnosis.lockoutPasswordCommand)
        }
        guard let left = status.attemptsLeft else {
            return .warning(
                "lockout", "It does not count wrong PINs.", "Use another TPM, or PINs that can't be guessed.")
        }
        return .ok("lockout", "It will take \(left) more wrong \(left == 1 ? "PIN" : "PINs") before it locks.")
    }

    private func revocation(_ diagnosis: TPMDiagnosis, _ store: RecordStore?) async -> Check {
        let name = "revocation"
        let isPending = await hasPendingRevocations(store)
        let pending = "What was deleted or replaced waits to be taken back: copies of the store still open it."
        guard !diagnosis.isOwnerPasswordSet else {
            return .warning(
                name,
                "The TPM's owner has a password, so what is made here can't be taken back from copies, and what is "
                    + "revocable already can't be removed until the password is gone (a PIN change still works)."
                    + (isPending ? " \(pending)" : ""),
                "Keep no copies of the store, or have the owner remove the password before you enable or enrol.")
        }
        guard !isPending else {
            return .warning(
                name, pending,
                "The next command that opens a vault, enables or disables the login, or starts the locker has it tried "
                    + "again. If it stays so, keep no copies of the store.")
        }
        guard diagnosis.hasPlaceForRevocable else {
            return .warning(
                name, "The TPM has no place left for keys that can be taken back from copies: new ones can't be.",
                "Delete keys, logins and lockers that nobody uses: latchkey key list --all.")
        }
        return .ok(name, "The TPM can take keys back from copies of the store.")
    }

    /// Whether the container has something that the hardware has not taken back yet. The check of the store tells of a store
    /// that can't be read.
    private func hasPendingRevocations(_ store: RecordStore?) async -> Bool {
        guard store != nil else { return false }
        return (try? await context.records().hasPendingRevocations) ?? false
    }

    /// The count of the user's own, where something in the container has one.
    private func userPIN(_ store: RecordStore?) async -> Check? {
        guard store != nil else { return nil }
        let name = "user-pin"
        do throws(KeystoreError) {
            guard let status = try await context.records().userPINStatus() else { return nil }
            guard !status.isLockedOut else {
                return .warning(
                    name, "The TPM takes your PIN no more: too many were wrong.",
                    "Use your finger, or have an administrator reset it, as ‘man latchkey-presenced’ says.")
            }
            guard let left = status.attemptsLeft else { return .ok(name, "Wrong PINs are counted for you alone.") }
            return .ok(
                name, "Wrong PINs are counted for you alone; \(left) more \(left == 1 ? "is" : "are") taken in a row.")
        } catch {
            return .warning(name, "\(error)", error.recovery)
        }
    }

    private func finger() async -> Check {
        let name = "finger"
        let broker = context.presence.broker
        switch await broker?.fingerState() {
        case .ready?: return .ok(name, "The presence broker answers, and you have a finger enrolled.")
        case .notEnrolled?:
            return .warning(
                name, "There is a fingerprint reader, and you have no finger enrolled.", "Run fprintd-enroll.")
        case .lockedOut(let until)?:
            let time = until.map { " until \($0.formatted(.iso8601))" } ?? ""
            return .warning(name, "No finger is looked at\(time): too many were not yours.", "Wait, or use your PIN.")
        case .notAvailable(let why)?:
            return .warning(
                name, "No finger can be checked: \(why).",
                "Connect a reader, and install fprintd and latchkey-presenced; PINs work without.")
        case nil:
            return .warning(name, "No finger can be checked: this program uses no presence broker.", "Use your PIN.")
        }
    }

    /// Tokens are there to be named; nothing depends on them until one is.
    private func modules() -> Check {
        let names = TokenDirectory.configuredModuleNames
        guard !names.isEmpty else {
            return .ok("tokens", "No token is named, and p11-kit is configured with no module.")
        }
        return .ok(
            "tokens", "No token is named; p11-kit is configured with \(names.joined(separator: ", ")).")
    }

    private func pinSource() -> Check {
        if let obstacle = context.pinObstacle() { return .warning("pin-source", "\(obstacle)", obstacle.recovery) }
        return .ok("pin-source", "PINs come from \(context.settings.pinSource ?? .standard).")
    }
}
