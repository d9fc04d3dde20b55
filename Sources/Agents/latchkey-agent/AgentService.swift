import Latchkey
import LatchkeySSH
import LatchkeyServices
import Logging
import Synchronization

/// Answers the requests of all clients from the records of one container.
actor AgentService {
    private let settings: ProgramSettings
    private let presence: any PresenceAuthority
    private let knownHostsFiles: [String]
    private let log: Logger
    private let prompts = PromptQueue()
    private var opened: Opened?
    private var running: Task<AgentAnswer, Never>?

    /// The store and the keystores, which stay open between requests.
    private struct Opened {
        let store: RecordStore
        var records: RecordContainer
        var keystores: [String: any Keystore] = [:]
    }

    init(
        _ settings: ProgramSettings, presence: any PresenceAuthority, knownHostsFiles: [String],
        log: Logger
    ) {
        (self.settings, self.presence) = (settings, presence)
        (self.knownHostsFiles, self.log) = (knownHostsFiles, log)
    }

    /// Answers a message. Every failure is the answer `failure`, with the reason in the log.
    func answer(_ message: [UInt8], _ session: ClientSession) async -> AgentAnswer {
        do throws(SSHFormatError) {
            switch try AgentRequest(message) {
            case .listIdentities: return await identities(session)
            case .sign(let publicKey, let data, _):
                return await sign(data, with: publicKey, session)
            case .bindSession(let request): return bind(request, session)
            case .queryExtensions: return .supportedExtensions
            case .otherExtension: return .extensionFailure
            case .unsupported(let type):
                log.debug("refused a message", metadata: ["type": "\(type)"])
                return .failure
            }
        } catch {
            log.notice(
                "refused a message: \(error)",
                metadata: ["client": "\(session.requester.description)"])
            return .failure
        }
    }

    /// Discards earlier proofs and record keys, closes the prompt that is open, and refuses the
    /// requests that wait for theirs.
    func lock() async {
        log.debug("locking")
        prompts.cancelWaiting()
        running?.cancel()
        guard let opened else { return }
        await opened.records.lock()
        for keystore in opened.keystores.values { keystore.endReuse() }
    }

    // MARK: Requests

    private func identities(_ session: ClientSession) async -> AgentAnswer {
        let bindings = session.bindings.withLock(\.self)
        let offered = await offeredKeys().filter { $0.settings.isOffered(to: bindings) }
        return .identities(
            offered.flatMap { key in
                [(key.publicKey.blob, key.name)]
                    + (key.certificate.map { [($0.blob, "\(key.name) (certificate)")] } ?? [])
            })
    }

    private func bind(_ request: SessionBind, _ session: ClientSession) -> AgentAnswer {
        let knownHosts = KnownHosts(files: knownHostsFiles)
        for file in knownHosts.unreadable {
            log.warning(
                "\(file) cannot be read, or is too long. It could revoke any host key, so all sessions are refused."
            )
        }
        do throws(SSHFormatError) {
            try session.bindings.withLock { bindings throws(SSHFormatError) in
                try bindings.bind(request) { knownHosts.isRevoked($0) }
            }
            return .success
        } catch {
            log.notice(
                "refused a session: \(error)",
                metadata: ["client": "\(session.requester.description)"])
            return .failure
        }
    }

    private func sign(_ data: [UInt8], with publicKey: [UInt8], _ session: ClientSession) async
        -> AgentAnswer
    {
        let client = session.requester.description
        guard
            let key = await offeredKeys().first(where: {
                $0.publicKey.blob == publicKey || $0.certificate?.blob == publicKey
            })
        else {
            log.notice("refused to sign with an unknown key", metadata: ["client": "\(client)"])
            return .failure
        }
        let bindings = session.bindings.withLock(\.self)
        // The stored record decides before the prompt, and the verified one before the signature.
        guard let use = use(of: key, for: data, bindings, client) else { return .failure }
        let reason = use.reason(
            key: key.name, client: client, knownHosts: KnownHosts(files: knownHostsFiles))
        let prompt = PromptContext(reason: reason, container: settings.container)
        let answer = await prompts.run {
            let task = Task {
                await self.signed(
                    data, with: key, through: bindings, for: prompt, of: client)
            }
            self.running = task
            defer { self.running = nil }
            return await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                task.cancel()
            }
        }
        return answer ?? .failure
    }

    private func use(
        of key: SSHKeyRecord, for data: [UInt8], _ bindings: SessionBindings, _ client: String
    ) -> SignatureUse? {
        switch SigningDecision(
            data: data, key: key.publicKey.blob, certificate: key.certificate?.blob,
            bindings: bindings,
            settings: key.settings)
        {
        case .allowed(let use): return use
        case .refused(let reason):
            log.notice(
                "refused to sign: \(reason)",
                metadata: ["client": "\(client)", "key": "\(key.key.id)"])
            return nil
        }
    }

    private func signed(
        _ data: [UInt8], with offered: SSHKeyRecord, through bindings: SessionBindings,
        for prompt: PromptContext, of client: String
    ) async -> AgentAnswer {
        // One PIN can open the record keys and the key, if the hardware requires it for both.
        let presence = PresenceSession(self.presence)
        do throws(KeystoreError) {
            let records = try await opened().records
            let key = try await records.verifiedSSHKey(
                offered.key.id, for: prompt, authorizedBy: presence)
            try key.checkVerification()
            guard key.publicKey == offered.publicKey,
                use(of: key, for: data, bindings, client) != nil
            else {
                return .failure
            }
            let signature = try await keystore(of: key.key).sign(
                MessageDigest(sha256: data), with: key.key, for: prompt, authorizedBy: presence)
            log.notice(
                "signed",
                metadata: [
                    "client": "\(client)", "key": "\(key.key.id)", "use": "\(prompt.reason)",
                ])
            return .signature(SSHPublicKey.encode(signature))
        } catch {
            let error = error.during("sign for \(client)")
            log.warning("\(error) \(error.advice)", metadata: ["key": "\(offered.key.id)"])
            return .failure
        }
    }

    // MARK: Records

    /// The keys that the agent may use, from the records: without the hardware and without a
    /// prompt.
    private func offeredKeys() async -> [SSHKeyRecord] {
        do throws(KeystoreError) {
            let (keys, damaged) = try await opened().records.sshKeys()
            for error in damaged { log.warning("\(error)") }
            return keys.filter { (try? $0.checkVerification()) != nil }
        } catch {
            log.warning("\(error.during("list the SSH keys")) \(error.advice)")
            return []
        }
    }

    private func opened() async throws(KeystoreError) -> Opened {
        if var opened {
            // The container may have got its record keys since: from the TPM, although a token is
            // configured.
            if opened.records.keystore.backend != "tpm", settings.token != nil {
                let records = try await settings.recordsOfAnyHardware(in: opened.store)
                if records.keystore.backend != opened.records.keystore.backend {
                    opened.records = records
                    self.opened = opened
                }
            }
            return opened
        }
        let store = try await settings.openedStore()
        let new = Opened(
            store: store, records: try await settings.recordsOfAnyHardware(in: store))
        let first = opened ?? new
        opened = first
        return first
    }

    /// The keystore of a key. A token's is kept, because it keeps the token's session.
    private func keystore(of key: HardwareKey) async throws(KeystoreError) -> any Keystore {
        let opened = try await opened()
        if key.backend == opened.records.keystore.backend { return opened.records.keystore }
        let name = try settings.place(of: key)
        if let known = self.opened?.keystores[name] { return known }
        let keystore = try settings.keystore(of: key, in: opened.store)
        self.opened?.keystores[name] = keystore
        return keystore
    }
}
