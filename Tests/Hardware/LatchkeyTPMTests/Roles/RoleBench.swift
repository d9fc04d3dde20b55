import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

@testable import LatchkeyTPM

/// A same-user process that uses a loaded key of the store in every role, without a proof of the
/// user's presence.
final class RoleBench {
    /// What an attempt presents for the key.
    enum Attempt: CaseIterable {
        /// The authValue as far as the store contains it: 32 bytes for a key with a reuse time,
        /// otherwise empty.
        case authValue
        /// A policy session with these assertions.
        case nothing, commandCode, policyAuthValue, policyPassword, commandCodeAndAuthValue
    }

    static let persistent: UInt32 = 0x8101_7000
    private static let nvHandle = TPMHandle(rawValue: 0x0180_7000)

    private let tpm: TPM
    private let transport: any TPMTransport
    private let known: [UInt8]
    private let isCounted: Bool
    private let branches: [PolicyDigest]
    let origin: TPMKeyBlob.Origin?
    let key: UInt32
    /// The storage root key.
    let parent: UInt32
    /// A restricted key that everybody can use.
    let helper: UInt32
    let helperName: TPMName
    let helperPrivate: PrivateBlob
    let template: PublicArea
    let creationHash: [UInt8]
    let creationTicket: Ticket
    let credential: (blob: [UInt8], secret: [UInt8])
    let index: UInt32
    /// A session that audited a command.
    let audit: UInt32
    /// A policy session for assertions.
    private(set) var policy: UInt32 = 0

    /// - Parameters:
    ///   - known: The authValue in the store.
    ///   - branches: The branches of the key's policy.
    ///   - isCounted: Whether the TPM counts wrong authValues.
    init(
        _ key: TSS2PrivateKey, known: [UInt8] = [], branches: [PolicyDigest] = [],
        isCounted: Bool = false, origin: TPMKeyBlob.Origin? = nil
    ) throws {
        transport = ResubmittingTransport(try TCTIConnection(try SoftwareTPM.current.tcti))
        let tpm = TPM(transport)
        self.tpm = tpm
        (self.known, self.branches) = (known, branches)
        (self.isCounted, self.origin) = (isCounted, origin)
        let root = try tpm.execute(ReadPublic(.storageRootKey))
        parent = root.handle.rawValue
        let made = try tpm.execute(Create(KeyTemplates.attestationKey, under: root))
        (template, helperPrivate) = (made.publicArea, made.privatePart)
        (creationHash, creationTicket) = (made.creationHash, made.creationTicket)
        let helper = try tpm.execute(Load(made.privatePart, made.publicArea, under: root))
        (self.helper, helperName) = (helper.handle.rawValue, helper.name)
        self.key = try tpm.execute(Load(key.privatePart, key.publicArea, under: root)).handle
            .rawValue
        let area = NVPublicArea(
            index: Self.nvHandle, attributes: [.authWrite, .authRead, .ownerRead, .noDA],
            authPolicy: [], dataSize: 8)
        let index = try tpm.execute(NVDefineSpace(area))
        try tpm.execute(NVWrite(SensitiveData([UInt8](repeating: 1, count: 8)), to: index))
        self.index = index.handle.rawValue
        let session = try tpm.execute(StartAuthSession(.hmac, saltedTo: nil))
        _ = try tpm.handles(from: .transientFirst, count: 1, auditedBy: session)
        audit = session.handle.rawValue
        // MakeCredential for the key, which the storage root key opens.
        let answer = try Self.exchange(
            transport, 0x168, [parent], [],
            TPMWriter(
                TPM2B([UInt8](repeating: 5, count: 32)), TPM2B(try key.publicArea.name.bytes)))
        var reader = TPMReader(answer.dropFirst(10))
        credential = (try reader.readSized(maximum: 256), try reader.readSized(maximum: 256))
        policy = try startPolicy()
    }

    /// Removes everything from the TPM.
    func close() {
        for handle in [key, helper, audit, policy] {
            try? tpm.execute(FlushContext(TPMHandle(rawValue: handle)))
        }
        if let index = try? tpm.execute(NVReadPublic(Self.nvHandle)) {
            try? tpm.execute(NVUndefineSpace(index))
        }
        transport.close()
    }

    // MARK: Attempts

    /// The TPM's answers to a role: to the authValue, then to all policy sessions; to the command
    /// alone if the role needs no authorization.
    func answers(to role: KeyRole) throws -> String {
        guard role.isAuthorized(in: self) else { return Self.text([try code(role, nil)]) }
        let first = try code(role, .authValue)
        var others: [UInt32] = []
        for attempt in Attempt.allCases.dropFirst() {
            let answer = try code(role, attempt)
            if !others.contains(answer) { others.append(answer) }
        }
        return others == [first]
            ? Self.text([first]) : Self.text([first]) + "; " + Self.text(others)
    }

    private static func text(_ codes: [UInt32]) -> String {
        codes.map { $0 == 0 ? "**0x0**" : "0x" + String($0, radix: 16) }.joined(separator: ", ")
    }

    private func code(_ role: KeyRole, _ attempt: Attempt?) throws -> UInt32 {
        let handles = role.handles(self)
        var authorizations: [TPMWriter] = []
        var session: UInt32?
        for handle in handles.prefix(role.authorized) {
            guard handle == nil, let attempt else {
                authorizations.append(Self.authorization(0x4000_0009, []))
                continue
            }
            if attempt == .authValue {
                authorizations.append(Self.authorization(0x4000_0009, known))
            } else {
                let opened = try startPolicy()
                session = opened
                try assert(attempt, role.code, in: opened)
                authorizations.append(Self.authorization(opened, []))
            }
        }
        let answer = try Self.exchange(
            transport, role.code, handles.map { $0 ?? key }, authorizations,
            role.parameters(self))
        let code = Self.code(of: answer)
        if let session { try? tpm.execute(FlushContext(TPMHandle(rawValue: session))) }
        try clean(after: role, code)
        return code
    }

    private func assert(_ attempt: Attempt, _ code: UInt32, in session: UInt32) throws {
        var assertions: [(UInt32, TPMWriter)] = []
        if [.commandCode, .commandCodeAndAuthValue].contains(attempt) {
            assertions.append((0x16c, TPMWriter(code)))
        }
        if [.policyAuthValue, .commandCodeAndAuthValue].contains(attempt) {
            assertions.append((0x16b, TPMWriter()))
        }
        if attempt == .policyPassword { assertions.append((0x18c, TPMWriter())) }
        for (code, parameters) in assertions {
            let answer = try Self.exchange(transport, code, [session], [], parameters)
            try #require(Self.code(of: answer) == 0)
        }
        guard branches.count > 1 else { return }
        // The TPM refuses it unless the session satisfies one of the branches.
        var list = TPMWriter(UInt32(branches.count))
        for branch in branches { list.write(TPM2B(branch.bytes)) }
        _ = try Self.exchange(transport, 0x171, [session], [], list)
    }

    /// Restores what a command changed.
    private func clean(after role: KeyRole, _ code: UInt32) throws {
        if code == 0 {
            if role.code == 0x120 {
                let object = try tpm.execute(ReadPublic(TPMHandle(rawValue: Self.persistent)))
                try tpm.execute(EvictControl(object, at: object.handle))
            }
            for handle in try tpm.handles(from: .transientFirst)
            where ![key, helper].contains(handle.rawValue) {
                try tpm.execute(FlushContext(handle))
            }
            for handle in try tpm.handles(from: .loadedSessionFirst)
            where ![audit, policy].contains(handle.rawValue) {
                try tpm.execute(FlushContext(handle))
            }
        } else if isCounted {
            try Scene.resetCount(tpm)
        }
    }

    // MARK: Raw commands

    private func startPolicy() throws -> UInt32 {
        try tpm.execute(StartAuthSession(.policy, saltedTo: nil)).handle.rawValue
    }

    /// A password, or a session that continues, without an HMAC.
    private static func authorization(_ handle: UInt32, _ value: [UInt8]) -> TPMWriter {
        TPMWriter(handle, UInt16(0), UInt8(1), TPM2B(value))
    }

    private static func exchange(
        _ transport: any TPMTransport, _ code: UInt32, _ handles: [UInt32],
        _ authorizations: [TPMWriter], _ parameters: TPMWriter
    ) throws -> [UInt8] {
        var body = TPMWriter()
        for handle in handles { body.write(handle) }
        let area = authorizations.flatMap(\.bytes)
        if !area.isEmpty {
            body.write(UInt32(area.count))
            body.write(area)
        }
        body.write(parameters.bytes)
        let tag: UInt16 = area.isEmpty ? 0x8001 : 0x8002
        return try transport.exchange(
            TPMWriter(tag, UInt32(body.bytes.count + 10), code).bytes + body.bytes)
    }

    private static func code(of answer: [UInt8]) -> UInt32 {
        answer.dropFirst(6).prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    // MARK: The TPM

    /// The commands of this TPM that have a handle.
    static func commandsWithHandles() throws -> Set<UInt32> {
        let transport = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { transport.close() }
        // TPM_CAP_COMMANDS, from the first command.
        let answer = try exchange(
            transport, 0x17a, [], [], TPMWriter(UInt32(2), UInt32(0), UInt32(256)))
        var reader = TPMReader(answer.dropFirst(10))
        // moreData and the capability.
        _ = try reader.readBytes(5)
        let count = try reader.read(UInt32.self)
        var commands: Set<UInt32> = []
        for _ in 0..<count {
            let attributes = try reader.read(UInt32.self)
            // TPMA_CC: bits 0 to 15 the command, bits 25 to 27 the number of handles.
            if attributes >> 25 & 7 > 0 { commands.insert(attributes & 0xffff) }
        }
        return commands
    }
}
