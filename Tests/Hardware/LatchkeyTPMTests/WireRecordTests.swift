import Crypto
import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

/// The commands of each operation of the keystore and of the presence broker, compared with the
/// record in ``WireRecord``: codes, kinds of handles and sessions, and the parameters that contain
/// no nonce, no random value and no encrypted value.
@Suite struct WireRecordTests {
    @Test(.softwareTPM) func `keys and secrets send the recorded commands`() async throws {
        let tape = Tape(isShared: false)
        for policy in [AccessPolicy.none, .pin] {
            for form in [KeyForm.fixedScheme, .webAuthn] {
                let name = "\(policy.requirement.rawValue) \(form)"
                let key = try await tape.key(name, policy, form)
                try await tape.sign(name, key)
                let revocable = try await tape.record("create revocable \(name)") { keystore in
                    try await keystore.createRevocableKey(
                        KeyRequest(policy: policy, prompt: Scene.prompt, form: form),
                        authorizedBy: tape.presence
                    ) { _ in }
                }
                try await tape.sign("revocable \(name)", revocable)
                guard form == .fixedScheme else { continue }
                for (kind, key) in [("", key), ("revocable ", revocable)] {
                    let renamed = try await tape.record("rename \(kind)\(name)") { keystore in
                        try await keystore.rename(
                            key, to: "another", for: Scene.prompt, authorizedBy: tape.presence)
                    }
                    let changed = try await tape.record("change PIN \(kind)\(name)") { keystore in
                        try await keystore.changePIN(
                            of: [renamed], secrets: [], for: Scene.prompt,
                            authorizedBy: tape.presence)
                    }
                    try await tape.record("attest creation \(kind)\(name)") { keystore in
                        _ = try await keystore.attest(
                            changed.keys[0],
                            for: AttestationRequest(challenge: Data(count: 32), form: .creation))
                        _ = try await keystore.attest(
                            changed.keys[0],
                            for: AttestationRequest(challenge: Data(count: 32), form: .certify),
                            authorizedBy: tape.presence)
                    }
                }
                try await tape.record("delete \(name)") { try await $0.delete(revocable) }
            }
            try await tape.secrets(policy.requirement.rawValue, policy)
        }
        tape.expect(WireRecord.plain, "plain")
    }

    @Test(.softwareTPM, arguments: [false, true])
    func `keys and secrets under the broker send the recorded commands`(_ isShared: Bool)
        async throws
    {
        let tape = Tape(isShared: isShared)
        try await TemporaryDirectory.withDirectory { directory in
            try await tape.start(directory.path)
            let reusable = [AccessPolicy.Requirement.biometryAny, .userPresence].compactMap {
                AccessPolicy($0, reuseSeconds: 60)
            }
            for policy in [.pin, .userPresence, .biometryAny, .biometryCurrentSet] + reusable {
                let name = "\(policy.requirement.rawValue) \(policy.reuseSeconds)"
                let key = try await tape.key(name, policy, .fixedScheme)
                try await tape.sign("\(name)", key)
                try await tape.sign("\(name) again", key)
                if policy.requirement == .userPresence {
                    tape.preference = .pin
                    try await tape.sign("\(name) by PIN", key)
                    tape.preference = .any
                }
                try await tape.record("attest \(name)") { keystore in
                    _ = try await keystore.attest(
                        key, for: AttestationRequest(challenge: Data(count: 32), form: .certify))
                }
                try await tape.secrets(name, policy)
                try await tape.record("change PIN \(name)") { keystore in
                    _ = try await keystore.changePIN(
                        of: [key], secrets: [], for: Scene.prompt, authorizedBy: tape.presence)
                }
                // Removes the tickets.
                tape.keystore.endReuse()
            }
        }
        tape.expect(
            isShared ? WireRecord.sharedBroker : WireRecord.broker,
            isShared ? "sharedBroker" : "broker")
    }

    @Test(
        .softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"))
    func `an enrolment sends the recorded commands`() async throws {
        let tape = Tape(isShared: false)
        let rig = try EnrolmentRig()
        let key = try await tape.key("pin", .pin, .fixedScheme)
        let identity = try await tape.record("identity") { keystore in
            try await keystore.attestationIdentity(for: EnrolmentRig.issuer)
        }
        let (challenge, pending) = try rig.challenge(identity)
        let secret = try await tape.record("activate") { keystore in
            try await keystore.activate(challenge, for: EnrolmentRig.issuer)
        }
        let certificates = try rig.authority.certificate(
            for: pending, secret: secret.withUnsafeBytes { Data($0) })
        try await tape.keystore.keepAttestationCertificates(certificates, for: EnrolmentRig.issuer)
        try await tape.record("attest") { keystore in
            _ = try await keystore.attest(
                key,
                for: AttestationRequest(
                    challenge: Data(count: 32), issuer: EnrolmentRig.issuer, form: .creation))
        }
        tape.expect(WireRecord.enrolment, "enrolment")
    }
}

/// A keystore, and a line for each of its operations.
private final class Tape {
    private let wire = Wire()
    private let brokerWire = Wire()
    private let anchors = MemoryTrustAnchors()
    private var lines: [String] = []
    private var details: [String] = []
    private var broker: InProcessBroker?
    let keystore: TPMKeystore
    var preference = PresencePreference.any

    init(isShared: Bool) {
        guard let tpm = try? SoftwareTPM.current else { preconditionFailure("there is no TPM") }
        keystore = wire.keystore(tpm, anchors: anchors, isShared: isShared)
    }

    /// The PIN is always the same. A finger comes first, unless the test prefers the PIN. A prompt
    /// would add ReadPublic to its first use.
    var presence: ScriptedPresence {
        ScriptedPresence(
            [.pin("123456"), .pin("123456")], broker: broker.map { PresenceBroker($0) },
            preferring: broker != nil && preference != .pin ? .finger : preference,
            isInteractive: false)
    }

    func start(_ directory: String) async throws {
        let (tpm, wire) = (try SoftwareTPM.current, brokerWire)
        let authority = try await ApprovalAuthority(directory: directory) { () throws(TPMError) in
            try wire.transport(tpm)
        }
        broker = InProcessBroker(authority, Array(repeating: .matches, count: 200))
        finish("start the broker")
    }

    func key(_ name: String, _ policy: AccessPolicy, _ form: KeyForm) async throws -> HardwareKey {
        try await record("create \(name)") { keystore in
            try await keystore.createKey(
                KeyRequest(policy: policy, prompt: Scene.prompt, form: form),
                authorizedBy: presence)
        }
    }

    func sign(_ name: String, _ key: HardwareKey) async throws {
        try await record("sign \(name)") { keystore in
            _ = try await keystore.sign(
                Scene.digest, with: key, for: Scene.prompt, authorizedBy: presence)
        }
    }

    func secrets(_ name: String, _ policy: AccessPolicy) async throws {
        let sealed = try await record("seal \(name)") { keystore in
            try await keystore.seal(
                .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: presence)
        }
        try await record("unseal \(name)") { keystore in
            _ = try await keystore.unseal(sealed, for: Scene.prompt, authorizedBy: presence)
        }
        if broker == nil {
            let revocable = try await record("seal revocably \(name)") { keystore in
                try await keystore.sealRevocably(
                    .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: presence
                ) { _ in }
            }
            try await record("unseal revocably \(name)") { keystore in
                _ = try await keystore.unseal(revocable, for: Scene.prompt, authorizedBy: presence)
            }
            try await record("change PIN revocably \(name)") { keystore in
                _ = try await keystore.changePIN(
                    of: [], secrets: [sealed, revocable], for: Scene.prompt, authorizedBy: presence)
            }
            try await record("revoke \(name)") { try await $0.revoke(revocable) }
        }
        let macKey = try await record("MAC key \(name)") { keystore in
            try await keystore.createMACKey(
                policy: policy, for: Scene.prompt, authorizedBy: PresenceSession(presence))
        }
        let key = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: Scene.prompt, form: .webAuthn),
            authorizedBy: PresenceSession(presence))
        wire.forget()
        brokerWire.forget()
        try await record("MAC and sign \(name)") { keystore in
            _ = try await keystore.sign(
                with: key, after: [Data(repeating: 1, count: 32)], with: macKey, for: Scene.prompt,
                authorizedBy: presence
            ) { _ in Scene.digest }
        }
    }

    @discardableResult
    func record<R>(_ name: String, _ body: (TPMKeystore) async throws -> R) async throws -> R {
        defer { finish(name) }
        return try await body(keystore)
    }

    private func finish(_ name: String) {
        let own = wire.exchanges.filter(\.isAnswered).map { $0.line(isBroker: false) }
        let brokers = brokerWire.exchanges.filter(\.isAnswered).map { $0.line(isBroker: true) }
        wire.forget()
        brokerWire.forget()
        let detail = (own + brokers.map { "broker " + $0 }).joined(separator: "\n")
        let digest = SHA256.hash(data: Data(detail.utf8)).prefix(6).map {
            String(format: "%02x", $0)
        }
        let counts = broker == nil ? "\(own.count)" : "\(own.count)+\(brokers.count)"
        lines.append("\(name): \(counts) \(digest.joined())")
        details.append("\(name):\n\(detail)")
    }

    /// Prints the operations that differ, with all of their comparable bytes.
    func expect(
        _ recorded: String, _ name: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let expected = recorded.split(separator: "\n").map(String.init)
        for (line, detail) in zip(lines, details) where !expected.contains(line) {
            Issue.record("not recorded: \(line)\n\(detail)", sourceLocation: sourceLocation)
        }
        #expect(lines == expected, sourceLocation: sourceLocation)
        guard lines != expected, let path = ProcessInfo.processInfo.environment["WIRE_RECORD"]
        else { return }
        // The new record, to paste.
        try? (lines + details).joined(separator: "\n").write(
            toFile: "\(path)-\(name)", atomically: true, encoding: .utf8)
    }
}

extension Wire.Exchange {
    /// A simulator asks for the first use of a PIN again.
    fileprivate var isAnswered: Bool { !response.suffix(4).elementsEqual([0, 0, 0x09, 0x22]) }

    /// The fields of the parameters. `=` is a `TPM2B` that is compared, `#` one of which only the
    /// length is compared, `-` one that is not compared, `P` and `N` a public area of an object or
    /// index, `4` four bytes, `H` the kind of a handle, `*` the rest; `?` a rest that is not
    /// compared.
    private static let layouts: [TPMCommandCode: String] = [
        .startAuthSession: "##*", .load: "#P", .loadExternal: "-P*", .create: "-P#*",
        .createPrimary: "=P*", .sign: "=*", .unseal: "", .hmac: "=*", .flushContext: "H",
        .evictControl: "4", .nvDefineSpace: "-N", .nvWrite: "#*", .nvRead: "*", .nvReadPublic: "",
        .nvIncrement: "", .nvUndefineSpace: "", .nvChangeAuth: "-", .objectChangeAuth: "-",
        .policySigned: "##=4?", .policySecret: "##=4", .policyTicket: "?", .policyOR: "4?",
        .policyNV: "#*", .policyCommandCode: "*", .policyAuthValue: "", .contextSave: "",
        .contextLoad: "?", .getCapability: "*", .readPublic: "", .certify: "=*",
        .certifyCreation: "=#?", .nvCertify: "=*", .activateCredential: "--",
    ]
    /// The broker signs nonces, and refers to random values.
    private static let brokerLayouts: [TPMCommandCode: String] = [
        .sign: "#*", .policySigned: "###4?",
    ]
    /// The number of handles.
    private static let handles: [TPMCommandCode: Int] = [
        .startAuthSession: 2, .load: 1, .loadExternal: 0, .create: 1, .createPrimary: 1, .sign: 1,
        .unseal: 1, .hmac: 1, .flushContext: 0, .evictControl: 2, .nvDefineSpace: 1, .nvWrite: 2,
        .nvRead: 2, .nvReadPublic: 1, .nvIncrement: 2, .nvUndefineSpace: 2, .nvChangeAuth: 1,
        .objectChangeAuth: 2, .policySigned: 2, .policySecret: 2, .policyTicket: 1, .policyOR: 1,
        .policyNV: 3, .policyCommandCode: 1, .policyAuthValue: 1, .contextSave: 1, .contextLoad: 0,
        .getCapability: 0, .readPublic: 1, .certify: 2, .certifyCreation: 2, .nvCertify: 3,
        .activateCredential: 2,
    ]

    /// The comparable part.
    fileprivate func line(isBroker: Bool) -> String {
        var rest = command.dropFirst(10)
        func take(_ count: Int) -> ArraySlice<UInt8> {
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }
        func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }
        func hex(_ bytes: some Collection<UInt8>) -> String {
            bytes.map { String(format: "%02x", $0) }.joined()
        }
        // Transient objects and sessions have any free number.
        func handle(_ bytes: ArraySlice<UInt8>) -> String {
            [0x02, 0x03, 0x80].contains(bytes.first) ? hex(bytes.prefix(1)) : hex(bytes)
        }
        var parts = ["\(code)"]
        guard let count = Self.handles[code], let layout = Self.layouts[code] else {
            return "\(code): not laid out"
        }
        for _ in 0..<count { parts.append(handle(take(4))) }
        var isEncrypted = false
        if command.prefix(2) == [0x80, 0x02] {
            let end = rest.count - 4 - number(rest.prefix(4))
            _ = take(4)
            while rest.count > end {
                let session = handle(take(4))
                let nonce = number(take(2))
                _ = take(nonce)
                let attributes = take(1)
                let mac = number(take(2))
                _ = take(mac)
                isEncrypted = isEncrypted || number(attributes) & 0x20 != 0
                parts.append("[\(session) \(nonce) \(hex(attributes)) \(mac)]")
            }
        }
        let fields = (isBroker ? Self.brokerLayouts[code] : nil) ?? layout
        for (index, field) in fields.enumerated() {
            switch field {
            case "=", "#", "-":
                let count = number(take(2))
                let bytes = take(count)
                let isHidden = field != "=" || (index == 0 && isEncrypted)
                parts.append(field == "-" ? "-" : isHidden ? "#\(count)" : hex(bytes))
            case "P", "N":
                let area = take(number(take(2)))
                let head = area.prefix(field == "P" ? 8 : 10)
                let policy = number(area.dropFirst(head.count).prefix(2))
                let tail = area.dropFirst(head.count + 2 + policy)
                // A template's unique field is empty, and that of an object is random.
                let isTemplate = code == .create || code == .createPrimary || field == "N"
                parts.append(
                    "{\(hex(head)) #\(policy) \(isTemplate ? hex(tail) : "\(tail.count)")}")
            case "4": parts.append(hex(take(4)))
            case "H": parts.append(handle(take(4)))
            case "*": parts.append(hex(take(rest.count)))
            default: _ = take(rest.count)
            }
        }
        if !rest.isEmpty { parts.append("left over: \(rest.count)") }
        return parts.joined(separator: " ")
    }
}
