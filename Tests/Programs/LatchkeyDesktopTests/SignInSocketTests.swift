import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import LatchkeyDesktop

@Suite struct SignInSocketTests {
    private static let password = SecretBytes("pässword".utf8)

    /// Answers each request with a line, and returns the requests.
    private final class Service: Sendable {
        private let directory: TemporaryDirectory
        private let listener: ScriptedListener

        var path: String { directory.path(of: "login") }

        init(_ answer: String?) throws {
            let directory = try TemporaryDirectory()
            self.directory = directory
            listener = try ScriptedListener(directory.path(of: "login")) {
                answer.map { Array($0.utf8) }
            }
        }

        func client(owner: UInt32 = geteuid(), limit: Duration = hangLimit) -> SignInSocket {
            SignInSocket(path: path, user: 1000, owner: owner, limit: limit)
        }

        deinit { listener.end() }
    }

    @Test func `a status is read completely, or refused`() throws {
        let active = try Service("status active gnome 7 sealed stale set unproven\n")
        #expect(
            try active.client().status()
                == SignInStatus(
                    record: .init(
                        state: .active, kind: .gnome, generation: 7, seal: .pin, wrap: .stale),
                    hasPIN: true, isAllowed: false))
        let finger = try Service("status active none 7 finger fresh unset allowed\n")
        #expect(try finger.client().status().record?.seal == .finger)
        let none = try Service("status none - 0 - - unset allowed\n")
        #expect(
            try none.client().status()
                == SignInStatus(record: nil, hasPIN: false, isAllowed: true))
        for wrong in [
            "status active gnome 0 sealed fresh set allowed",
            "status active other 7 sealed fresh set allowed",
            "status none gnome 7 sealed fresh set allowed",
            "status active gnome 7 sealed fresh set",
            "status active gnome 7 sealed fresh set allowed more",
            "status active gnome x sealed fresh set allowed",
            "status active gnome 7 maybe fresh set allowed", "none", "",
            "status  active gnome 7 sealed fresh set allowed",
        ] {
            let service = try Service(wrong + "\n")
            #expect(throws: CommonError.of(.failed), "\(wrong)") { try service.client().status() }
        }
    }

    @Test func `a secret is read as the kind's bytes only`() throws {
        let digits = String(repeating: "0a", count: 32)
        let service = try Service("secret gnome \(digits)\n")
        #expect(
            try service.client().release(password: Self.password)
                == SecretBytes([UInt8](repeating: 10, count: 32)))
        for wrong in [
            "secret kwallet \(digits)", "secret gnome \(digits)00",
            "secret gnome \(digits.dropLast())",
            "secret gnome", "done \(digits)",
        ] {
            let service = try Service(wrong + "\n")
            #expect(throws: CommonError.of(.failed), "\(wrong)") {
                try service.client().release(password: Self.password)
            }
        }
    }

    @Test func `each refusal has its own code`() throws {
        let codes: [(String, CommonErrorCode)] = [
            ("error exists", .conflict), ("error absent", .notFound),
            ("error generation", .conflict), ("error pin", .passcodeNotSet),
            ("error password", .wrongProof), ("error tpm", .unavailable), ("error store", .failed),
            ("error other", .failed), ("no 3", .wrongProof), ("locked", .lockedOut),
            ("no", .wrongProof), ("none", .failed),
        ]
        for (answer, code) in codes {
            let service = try Service(answer + "\n")
            #expect(throws: CommonError.of(code), "\(answer)") {
                try service.client().activate(generation: 1)
            }
        }
        let service = try Service("no 3\n")
        let error = #expect(throws: CommonError.self) {
            try service.client().enrol(
                .gnome, secret: .random(count: 32), password: Self.password,
                proof: .pin(PIN("123456")))
        }
        #expect(error?.attemptsLeft == 3)
    }

    @Test func `the wait for a finger is reported, and the answer follows`() throws {
        let service = try Service("touch\ntouch\ndone 2\n")
        let touches = Mutex(0)
        let client = SignInSocket(
            path: service.path, user: 1000, owner: geteuid(), limit: hangLimit
        ) { touches.withLock { $0 += 1 } }
        #expect(try client.renew(password: Self.password, proof: .finger) == 2)
        #expect(touches.withLock { $0 } == 2)
        for (answer, code) in [("none", CommonErrorCode.unavailable), ("no", .wrongProof)] {
            let service = try Service(answer + "\n")
            #expect(throws: CommonError.of(code), "\(answer)") {
                try service.client().renew(password: Self.password, proof: .finger)
            }
        }
    }

    @Test func `an answer that is cut off, too long or late is refused`() throws {
        for (answer, code) in [
            ("done 1", CommonErrorCode.unavailable), ("", .unavailable),
            (String(repeating: "a", count: 600), .unavailable),
        ] {
            let service = try Service(answer)
            #expect(throws: CommonError.of(code), "\(answer.prefix(10))") {
                try service.client().activate(generation: 1)
            }
        }
        let closing = try Service("")
        let refusal = #expect(throws: CommonError.self) { try closing.client().status() }
        #expect(refusal?.recovery.contains("wait a minute") == true)
        let silent = try Service(nil)
        #expect(throws: CommonError.of(.unavailable)) {
            try silent.client(limit: .milliseconds(50)).activate(generation: 1)
        }
    }

    @Test func `a socket of another user gets no secret`() throws {
        let service = try Service("secret gnome \(String(repeating: "0a", count: 32))\n")
        #expect(throws: CommonError.of(.refused)) {
            try service.client(owner: geteuid() + 1).release(password: Self.password)
        }
    }

    @Test func `without the service, each request fails`() throws {
        let directory = try TemporaryDirectory()
        let client = SignInSocket(path: directory.path(of: "login"), user: 1000)
        #expect(throws: CommonError.of(.unavailable)) { try client.status() }
    }

    @Test func `a request is one line of the protocol's words`() {
        let words: [SecretBytes] = [.word("a"), .word("1000"), .word("")]
        let line = SecretBytes.line(words)
        #expect(line.text == "a 1000 \n")
        #expect(line.part(0..<(line.count - 1)).words == words)
    }
}
