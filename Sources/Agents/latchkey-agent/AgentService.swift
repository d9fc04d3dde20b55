import Latchkey
import LatchkeyPKCS11
import LatchkeySSH
import LatchkeyServices
import Logging
import Synchronization

/// Answers the requests of all clients from the records of one container.
actor AgentService {
    private let settings: ProgramSettings
    private let presence: any PresenceAuthority
    private let files: HostFiles
    private let log: Logger
    let refusals: RefusalLog
    /// nil if this agent answers all requests itself.
    nonisolated let otherAgent: OtherAgent?
    private let promptObstacle: @Sendable () -> KeystoreError?
    private let prompts = PromptQueue()
    private var opened: Opened?

    /// The user's files that name servers.
    struct HostFiles: Sendable {
        let knownHosts: [String]
        /// Files of ssh_config(5).
        let configurations: [String]
    }

    /// The store and the keystores, which stay open between requests.
    private struct Opened {
        let store: RecordStore
        var records: RecordContainer
        var keystores: [String: any Keystore] = [:]
    }

    /// - Parameters:
    ///   - promptObstacle: The reason why `presence` cannot prompt, as far as it is known.
    init(
        _ settings: ProgramSettings, presence: any PresenceAuthority, files: HostFiles,
        otherAgent: OtherAgent?, refusals: RefusalLog, log: Logger,
        promptObstacle: @escaping @Sendable () -> KeystoreError?
    ) {
        (self.settings, self.presence) = (settings, presence)
        (self.files, self.log, self.refusals) = (files, log, refusals)
        (self.otherAgent, self.promptObstacle) = (otherAgent, promptObstacle)
    }

    /// Answers a message. Every failure is the answer `failure`, with the reason in the log.
    func answer(_ message: [UInt8], _ session: ClientSession) async -> AgentReply {
        do throws(SSHFormatError) {
            switch try AgentRequest(message) {
            case .listIdentities: return .identities(await identities(session))
            case .sign(let publicKey, let data, _):
                return await sign(data, with: publicKey, session)
            case .bindSession(let request): return .bound(bind(request, session))
            case .queryExtensions: return .own(.supportedExtensions)
            case .onlyOwnKeys:
                session.limitToOwnKeys()
                return .own(.success)
            case .promptObstacle: return .own(obstacle(session))
            case .remove(let publicKey):
                return await key(publicKey) == nil ? change(session) : .own(.failure)
            case .change: return change(session)
            case .unsupported(let type):
                log.debug("refused a message", metadata: ["type": "\(type)"])
                return .own(.failure)
            }
        } catch {
            let isBinding = AgentRequest.isSessionBinding(message)
            if isBinding { session.bindings.withLock { $0.fail() } }
            refusals.notice("refused a message: \(error)", session)
            // The other agent must get each session binding, also one that it refuses.
            return isBinding ? .bound(.failure) : .own(.failure)
        }
    }

    /// Discards earlier proofs and record keys, closes the prompt that is open, and refuses the
    /// requests that wait for theirs.
    func lock() async {
        log.debug("locking")
        prompts.endAll()
        // A token's login belongs to the process: it outlives the keystores of a store that is
        // opened for each request.
        PKCS11Keystore.endAllReuse()
        guard let opened else { return }
        await opened.records.lock()
        for keystore in opened.keystores.values { keystore.endReuse() }
    }

    // MARK: Requests

    private func identities(_ session: ClientSession) async -> [AgentIdentity] {
        let bindings = session.bindings.withLock(\.self)
        let offered = await offeredKeys().filter { $0.settings.isOffered(to: bindings) }
        return offered.flatMap { key in
            [AgentIdentity(publicKey: key.publicKey.blob, comment: key.name)]
                + (key.certificate.map {
                    let words = ["certificate", $0.validity.note].compactMap(\.self)
                    return [
                        AgentIdentity(
                            publicKey: $0.blob,
                            comment: "\(key.name) (\(words.joined(separator: ", ")))")
                    ]
                } ?? [])
        }
    }

    /// A request to add or remove keys of the other agent, to lock it, or for an unknown extension:
    /// for local programs. A server to which the connection is forwarded can only use its keys.
    private func change(_ session: ClientSession) -> AgentReply {
        guard otherAgent == nil || !session.origin.isForwarded else {
            refusals.notice("refused a server to change the other agent", session)
            return .own(.failure)
        }
        return .other
    }

    private func obstacle(_ session: ClientSession) -> AgentAnswer {
        guard !session.origin.isForwarded else { return .failure }
        let error = promptObstacle()
        return .promptObstacle(reason: error?.reason ?? "", advice: error?.advice ?? "")
    }

    private func bind(_ request: SessionBind, _ session: ClientSession) -> AgentAnswer {
        let knownHosts = KnownHosts(files: files.knownHosts)
        do throws(SSHFormatError) {
            try session.bindings.withLock { bindings throws(SSHFormatError) in
                try bindings.bind(request) { knownHosts.isRevoked($0) }
            }
            return .success
        } catch {
            // Since the failure, the session counts as forwarded, so these notices are limited.
            for file in knownHosts.unreadable {
                refusals.notice(
                    "\(file) cannot be read, or is too long. It could revoke any host key, so all sessions are refused.",
                    session)
            }
            refusals.notice("refused a session: \(error)", session)
            return .extensionFailure
        }
    }

    /// The key of this agent with these bytes, or with a certificate of these bytes.
    private func key(_ publicKey: [UInt8]) async -> SSHKeyRecord? {
        await offeredKeys().first {
            $0.publicKey.blob == publicKey || $0.certificate?.blob == publicKey
        }
    }

    private func sign(_ data: [UInt8], with publicKey: [UInt8], _ session: ClientSession) async
        -> AgentReply
    {
        guard let key = await key(publicKey) else {
            guard otherAgent != nil, !session.isOfAgent else {
                refusals.notice("refused to sign with an unknown key", session)
                return .own(.failure)
            }
            return .otherSignature
        }
        return .own(await sign(data, with: key, session))
    }

    private func sign(_ data: [UInt8], with key: SSHKeyRecord, _ session: ClientSession) async
        -> AgentAnswer
    {
        let client = session.client.description
        let bindings = session.bindings.withLock(\.self)
        // The stored record decides before the prompt, and the verified one before the signature.
        guard let use = use(of: key, for: data, bindings, session) else { return .failure }
        let knownHosts = KnownHosts(files: files.knownHosts)
        for file in knownHosts.untrusted {
            refusals.warning("\(file) names no server, because other users can write it")
        }
        if let server = use.server, knownHosts.isRevoked(server) {
            refusals.refused("the host key is revoked in known_hosts", session, key)
            return .failure
        }
        let reason = use.reason(
            key: key.name, client: client, knownHosts: knownHosts,
            candidates: candidates(for: key, session))
        let prompt = PromptContext(reason: reason, container: settings.container)
        let result = await prompts.run(for: session.origin) {
            await self.signed(
                data, with: key, through: bindings, for: prompt, of: session,
                acceptsEarlierProof: use.permitsReuse)
        }
        switch result {
        case .finished(let answer): return answer
        case .refused(let reason):
            refusals.refused(reason, session, key, isShown: !Task.isCancelled)
            return .failure
        }
    }

    /// Names that the server of a request may have.
    private func candidates(for key: SSHKeyRecord, _ session: ClientSession) -> HostNames {
        var names = HostNames()
        names.add(arguments: session.client.arguments)
        for rule in key.settings.destinations {
            for hop in [rule.source, rule.destination] { names.add(hop?.name ?? "") }
        }
        names.add(configurations: files.configurations)
        return names
    }

    private func use(
        of key: SSHKeyRecord, for data: [UInt8], _ bindings: SessionBindings,
        _ session: ClientSession
    ) -> SignatureUse? {
        switch SigningDecision(
            data: data, key: key.publicKey.blob, certificate: key.certificate?.blob,
            bindings: bindings,
            settings: key.settings)
        {
        case .allowed(let use): return use
        case .refused(let reason):
            refusals.refused(reason, session, key)
            return nil
        }
    }

    private func signed(
        _ data: [UInt8], with offered: SSHKeyRecord, through bindings: SessionBindings,
        for prompt: PromptContext, of session: ClientSession, acceptsEarlierProof: Bool
    ) async -> (AgentAnswer, PromptOutcome) {
        // One PIN can open the record keys and the key, if the hardware requires it for both.
        let presence = PresenceSession(presence, acceptsEarlierProof: acceptsEarlierProof)
        func attempt() async throws(KeystoreError) -> AgentAnswer {
            let key = try await withStore { opened async throws(KeystoreError) in
                try await self.settings.checkHardware(of: opened.records)
                return try await opened.records.verifiedSSHKey(
                    offered.key.id, for: prompt, authorizedBy: presence)
            }
            try key.checkVerification()
            guard key.publicKey == offered.publicKey,
                use(of: key, for: data, bindings, session) != nil
            else { return .failure }
            let signature = try await keystore(of: key.key).sign(
                MessageDigest(sha256: data), with: key.key, for: prompt, authorizedBy: presence)
            log.notice(
                "signed",
                metadata: [
                    "client": "\(session.client.description)", "key": "\(key.key.id)",
                    "use": "\(prompt.reason)",
                ])
            return .signature(SSHPublicKey.encode(signature))
        }
        do throws(KeystoreError) {
            let answer = try await presence.withSecondAttempt(attempt)
            return (answer, answer == .failure ? .undecided : .accepted)
        } catch {
            refusals.failed(error, session, offered, isShown: !Task.isCancelled)
            // A prompt program that fails may have shown its window.
            return (
                .failure, [.cancelled, .failed].contains(error.code) ? .refused : .undecided
            )
        }
    }

    // MARK: Records

    /// The keys that the agent may use, from the records: without the hardware and without a
    /// prompt.
    private func offeredKeys() async -> [SSHKeyRecord] {
        do throws(KeystoreError) {
            let (keys, damaged) = try await withStore { opened async throws(KeystoreError) in
                try await opened.records.sshKeys()
            }
            for error in damaged { refusals.warning("\(error)") }
            return keys.filter { (try? $0.checkVerification()) != nil }
        } catch {
            // Before the first key, or while a user restores the store.
            guard error.code != .notFound else { return [] }
            refusals.warning("\(error.during("list the SSH keys")) \(error.advice)")
            return []
        }
    }

    /// Reads records. If another program has emptied or replaced the store, opens it again.
    private func withStore<Value: Sendable>(
        _ read: (Opened) async throws(KeystoreError) -> Value
    ) async throws(KeystoreError) -> Value {
        do throws(KeystoreError) { return try await read(opened()) } catch {
            guard error.code == .conflict else { throw error }
            log.notice("opening the store again: \(error.reason)")
            opened = nil
            return try await read(opened())
        }
    }

    /// Does not create a store: its files must not appear while a user restores one.
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
        let store = try await settings.existingStore()
        guard !store.isMissing else {
            throw .notFound(
                "there is no store at \(settings.store)",
                recovery: "The first key that is created creates it.")
        }
        let new = Opened(
            store: store, records: try await settings.recordsOfAnyHardware(in: store))
        let first = opened ?? new
        // A store that cannot be written may be changed or become writable later.
        if !store.isReadOnly { opened = first }
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
