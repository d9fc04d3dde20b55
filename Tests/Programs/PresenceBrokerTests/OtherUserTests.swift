import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

@testable import LatchkeyTPM

/// Another user of the machine, with an enrolled finger.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"),
    .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, to become another user"), .softwareTPM,
    .virtualFinger)
struct OtherUserTests {
    /// Debian's `daemon`, a user for services.
    private static let daemon: UInt32 = 1
    private static let name = list([0x00, 0x0b] + Array(repeating: 1, count: 32))
    private static let nonce = list(Array(repeating: 1, count: 32))

    @Test
    func `another user's finger approves for that user only, and the TPM refuses it for others`()
        async throws
    {
        try await BrokerScene.with { scene in
            try await scene.reader.enroll(.rightThumb, as: "strangers", for: "nobody")
            let anchors = MemoryTrustAnchors()
            let keystore = TPMKeystore(tcti: scene.tpm.tcti, anchors: anchors)
            let key = try await keystore.createKey(
                KeyRequest(policy: .biometryAny, prompt: BrokerScene.prompt),
                authorizedBy: scene.presence)
            let blob = try TPMKeyBlob(key.blob)
            let finger = try #require(blob.protection.finger)
            let root = try StorageRoot(
                anchor: try #require(try await anchors.anchor(StorageRoot.anchorName)))
            let device = TPMDevice { () throws(TPMError) in try TCTIConnection(scene.tpm.tcti) }
            let session = try await device.run { (tpm) throws(TPMError) in
                try tpm.suspend(try tpm.execute(StartAuthSession(.policy, saltedTo: nil)))
            }
            async let shown: Void = scene.reader.present(.finger("strangers"))
            let answer = try await Stranger(on: scene.reader.busAddress).call(
                "Approve", "sign", Self.list(try blob.key.publicArea.name.bytes),
                Self.list(BrokerScene.digest.bytes), Self.list(session.nonceTPM), "biometry-any",
                "0", "rob", "default")
            try await shown
            #expect(answer.status == 0, "\(answer.text)")
            let raw = Self.bytes(answer.text)
            try #require(raw.count == 64, "\(answer.text)")
            let code = await refusal { () throws(TPMError) in
                try await device.run { (tpm) throws(TPMError) in
                    try tpm.withResumed(session) { (session) throws(TPMError) in
                        let name = try blob.key.publicArea.name
                        let approval = Approval(
                            nonceTPM: session.nonceTPM,
                            expiration: ApprovalAuthority.approvalSeconds,
                            commandHash: Sign(
                                BrokerScene.digest.bytes, with: NamedHandle(named: name)
                            ).hash,
                            policyRef: PresenceReference.use(
                                by: Stranger.nobody, under: .biometryAny, enrolmentSet: nil))
                        let authority = try TPMObject(
                            handle: finger.handle ?? .null, publicArea: finger.authority)
                        // The TPM accepts the signature of the broker for that user.
                        _ = try tpm.execute(
                            PolicySigned(
                                approval,
                                signature: .ecdsa(
                                    hash: .sha256, r: Array(raw[..<32]), s: Array(raw[32...])),
                                by: authority), in: session)
                        try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                            try tpm.withLoaded(
                                blob.key.privatePart, blob.key.publicArea, under: parent
                            ) {
                                (object) throws(TPMError) in
                                _ = try tpm.execute(
                                    Sign(BrokerScene.digest.bytes, with: object),
                                    authorizedBy: .lastUse(of: session))
                            }
                        }
                    }
                }
            }
            #expect(code == 0x99d)
        }
    }

    @Test func `another user gets separate terms, and can't reset a PIN`() async throws {
        try await BrokerScene.with { scene in
            let stranger = Stranger(on: scene.reader.busAddress)
            let terms = try await stranger.call("Terms", "pin", "0")
            #expect(terms.text.contains("'User': <uint32 65534>"), "\(terms.text)")
            let none = try await stranger.call("Terms", "biometry-any", "0")
            #expect(none.text.contains("org.latchkey.Presence1.Error.NotEnrolled"), "\(none.text)")
            let reset = try await stranger.call("ResetPIN", "0")
            #expect(reset.text.contains("org.latchkey.Presence1.Error.Refused"), "\(reset.text)")
            for (method, arguments) in [("Users", []), ("Forget", ["0"])] {
                let refused = try await stranger.call(method, arguments)
                #expect(
                    refused.text.contains("org.latchkey.Presence1.Error.Refused"),
                    "\(refused.text)")
            }
        }
    }

    @Test func `a user without an account can't allocate TPM memory`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let stranger = Stranger(on: scene.reader.busAddress)
            for (method, arguments) in [("MakePIN", []), ("Terms", ["biometry-current-set", "0"])] {
                let answer = try await stranger.call(method, arguments)
                #expect(
                    answer.text.contains("org.latchkey.Presence1.Error.Unsupported"),
                    "\(answer.text)")
            }
            // A user without a name, for example in a user namespace. dbus-daemon refuses the
            // connection.
            let nameless = try await Stranger(on: scene.reader.busAddress, as: 424_242).call(
                "MakePIN")
            #expect(nameless.status != 0)
            let device = TPMDevice { () throws(TPMError) in try TCTIConnection(scene.tpm.tcti) }
            let indices = try await device.run { (tpm) throws(TPMError) in
                try tpm.handles(from: TPMHandle(rawValue: 0x0180_4c00), count: 255)
            }
            #expect(indices.allSatisfy { $0.rawValue > 0x0180_4cff })
        }
    }

    /// The service is not root, as in the unit, and the caller is another user. The service can't
    /// see which program the caller executes, so the prompt does not say.
    @Test(.requires(program: "dbus-monitor"))
    func `the prompt about another user's process quotes the process's own name`() async throws {
        try await BrokerScene.with(as: Self.daemon) { scene in
            let stranger = Stranger(on: scene.reader.busAddress)
            try await scene.reader.enroll(.rightThumb, as: "strangers", for: "nobody")
            let monitor = try RunningProgram(
                URL(filePath: "/usr/bin/dbus-monitor"),
                [
                    "--address", scene.reader.busAddress,
                    "type='signal',interface='\(PresenceWire.interface)'",
                ])
            // The client is a monitor after it has lost its name.
            _ = await monitor.output { $0.contains("NameLost") }
            let name = Self.list([0x00, 0x0b] + Array(1...32))
            let answer = Task {
                try await stranger.call(
                    "Approve", "sign", name, Self.list(BrokerScene.digest.bytes),
                    Self.list(Array(1...32)),
                    "biometry-any", "0", "rob “the” bank\n", "default")
            }
            try await scene.reader.present(.finger("strangers"))
            let given = try await answer.value
            #expect(given.status == 0, "\(given.text)")
            let seen = await monitor.output {
                $0.contains("\"matched\"") && $0.contains("container")
            }
            await monitor.stop(SIGKILL)
            let pattern =
                #/Process \d+ of nobody, which calls itself “gdbus”, asks for a finger of nobody\.[ ]/#
            let prompt = try #require(seen.firstMatch(of: pattern), "\(seen)")
            #expect(
                seen[prompt.range.upperBound...].hasPrefix(
                    "Its reason: “rob 'the' bank\u{FFFD}” (container “default”)."))
            #expect(!seen.contains("/gdbus"), "the executed program")
        }
    }

    @Test(arguments: [
        ["sign", "[]", "[]", "[]", "biometry-any", "0", "r", "c"],
        ["decrypt", "[byte 0]", "[byte 0]", "[byte 0]", "biometry-any", "0", "r", "c"],
        ["unseal", "[byte 0]", "[]", "[byte 0]", "pin", "0", "r", "c"],
        ["unseal", "[byte 0]", "[]", "[byte 0]", "biometry-any", "301", "r", "c"],
        ["unseal", name, nonce, nonce, "biometry-any", "0", "r", "c"],
        ["sign", name, "[byte 0]", nonce, "biometry-any", "0", "r", "c"],
        [
            "unseal", list(Array(repeating: 0, count: 34)), "[]", nonce, "biometry-any", "0", "r",
            "c",
        ],
        [
            "unseal", list([0x00, 0x0b] + Array(repeating: 1, count: 33)), "[]", nonce,
            "biometry-any", "0", "r", "c",
        ],
        [
            "unseal", name, "[]", list(Array(repeating: 1, count: 31)), "biometry-any", "0", "r",
            "c",
        ],
        [
            "unseal", name, "[]", list(Array(repeating: 1, count: 66)), "biometry-any", "0", "r",
            "c",
        ],
        ["unseal", name, "[]", nonce, "none", "0", "r", "c"],
        [
            "unseal", name, "[]", nonce, "biometry-any", "0", String(repeating: "r", count: 4097),
            "c",
        ],
        [
            "unseal", name, "[]", nonce, "biometry-any", "0", "r",
            String(repeating: "c", count: 4097),
        ],
    ])
    func `a request that makes no sense reaches no reader`(_ arguments: [String]) async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let answer = try await Stranger(on: scene.reader.busAddress).call(
                "Approve", arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                arguments[5],
                arguments[6], arguments[7])
            #expect(
                answer.text.contains("org.latchkey.Presence1.Error.InvalidInput"), "\(answer.text)")
        }
    }

    private func refusal(_ body: () async throws(TPMError) -> Void) async -> UInt32? {
        do throws(TPMError) {
            try await body()
            return nil
        } catch {
            return error.responseCode?.rawValue
        }
    }

    /// Bytes as gdbus reads them.
    private static func list(_ bytes: [UInt8]) -> String {
        "[" + bytes.map { "byte \($0)" }.joined(separator: ", ") + "]"
    }

    /// The bytes as gdbus prints them: `(30, [byte 0x01, 0x02])`, or `(30, b'\\001A')` if only the
    /// last one is 0.
    private static func bytes(_ text: String) -> [UInt8] {
        guard let start = text.firstRange(of: "b'") ?? text.firstRange(of: "b\"") else {
            return text.split(whereSeparator: { "[(, )]\n".contains($0) }).compactMap {
                $0.hasPrefix("0x") ? UInt8($0.dropFirst(2), radix: 16) : nil
            }
        }
        let named: [Character: UInt8] = [
            "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11,
        ]
        var rest = text[start.upperBound...]
        let quote = text[text.index(before: start.upperBound)]
        var bytes: [UInt8] = []
        while let character = rest.popFirst(), character != quote {
            guard character == "\\", let next = rest.popFirst() else {
                bytes += character.utf8
                continue
            }
            if next.isNumber {
                bytes.append(UInt8(String(next) + rest.prefix(2), radix: 8) ?? 0)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(named[next] ?? next.asciiValue ?? 0)
            }
        }
        return bytes + [0]
    }
}
