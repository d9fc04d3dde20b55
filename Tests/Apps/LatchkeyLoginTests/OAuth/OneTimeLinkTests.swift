import Foundation
import Glibc
import HTTPTypes
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyLogin
@testable import LatchkeyOAuth

@Suite(.timeLimit(.minutes(15)))
struct OneTimeLinkTests {
    private func withListener(_ body: (LoopbackListener) async throws -> Void) async throws {
        let listener = try LoopbackListener.start(
            page: { "https://identity.test/authorize?redirect_uri=\($0)" },
            accept: { $0 == "right" ? .success("c") : nil })
        defer { listener.close() }
        try await body(listener)
    }

    /// The status that another user of this machine gets; 000 without an answer.
    private func statusForOtherUser(_ url: String) async throws -> String {
        try await SystemProgram("setpriv").result(of: [
            "--reuid=65534", "--regid=65534", "--clear-groups", "--", "curl", "--silent",
            "--noproxy", "*",
            "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}", url,
        ]).output
    }

    @Test func `the link redirects the user's own programs to the login page`() async throws {
        try await withListener { listener async throws in
            for _ in 0..<2 {
                let answer = try await get(listener.link)
                #expect(answer.status == 303)
                #expect(
                    answer.location
                        == "https://identity.test/authorize?redirect_uri=\(listener.redirectURI)")
            }
            #expect(try await get("\(listener.redirectURI)?right").status == 200)
            #expect(try await listener.answer(within: hangLimit) == .success("c"))
        }
    }

    @Test func `if the user of a connection is unknown, a second visit ends the login`() {
        let ends = Mutex<[AuthorizationAnswer]>([])
        let responder = RedirectResponder(
            link: OneTimeLink(), page: "https://identity.test/authorize", accept: { _ in nil },
            notices: LoopbackNotices { _ in }
        ) {
            answer in ends.withLock { $0.append(answer) }
        }
        #expect(responder.start(forKnownUser: false).location == "https://identity.test/authorize")
        #expect(responder.start(forKnownUser: true).location == "https://identity.test/authorize")
        #expect(ends.withLock { $0 }.isEmpty)
        #expect(responder.start(forKnownUser: false) == .linkReused)
        #expect(ends.withLock { $0 } == [.failure(.linkReused)])
    }

    @Test func `if the user of a connection is unknown, a secret page is not shown`() {
        let notices = Mutex<[LoopbackNotice]>([])
        let responder = RedirectResponder(
            link: OneTimeLink(), page: "https://identity.test/authorize?token=t", isSecret: true,
            accept: { _ in nil },
            notices: LoopbackNotices { notice in notices.withLock { $0.append(notice) } },
            end: { _ in })
        #expect(responder.start(forKnownUser: false) == .unknownUser)
        #expect(responder.start(forKnownUser: true).location == responder.page)
        #expect(notices.withLock { $0 } == [.unknownUser])
    }

    @Test func `other requests do not use up the link`() async throws {
        try await withListener { listener async throws in
            #expect(
                listener.link.wholeMatch(
                    of: /http:\/\/127\.0\.0\.1:[0-9]+\/start\/[A-Za-z0-9_-]{43}/) != nil)
            #expect(try await get(String(listener.link.dropLast())).status == 404)
            #expect(try await get("\(listener.link)x").status == 404)
            for method in [HTTPRequest.Method.head, .post, .options] {
                #expect(try await get(listener.link, method: method).status == 405)
            }
            #expect(try await get(listener.link).status == 303)
        }
    }

    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"),
        .requires(program: "curl"))
    func `connections of another user are closed`() async throws {
        try await withListener { listener async throws in
            #expect(try await statusForOtherUser(listener.link) == "000")
            #expect(try await statusForOtherUser("\(listener.redirectURI)?right") == "000")
            #expect(try await get(listener.link).status == 303)
            #expect(try await get("\(listener.redirectURI)?right").status == 200)
            #expect(try await listener.answer(within: hangLimit) == .success("c"))
        }
    }

    /// The other user opens a connection again as soon as it is closed.
    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"),
        .requires(program: "python3"))
    func `another user's connections do not keep the user from the login`() async throws {
        try await withListener { listener async throws in
            let port = try #require(URLComponents(string: listener.link)?.port)
            let stranger = try RunningProgram(
                URL(filePath: "/usr/bin/setpriv"),
                [
                    "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                    Self.holder,
                    "\(port)", "\(4 * LoopbackListener.connectionLimit)",
                ])
            let said = await stranger.output { $0.contains("holding") }
            #expect(said.contains("holding"))
            for _ in 0..<5 { #expect(try await get(listener.link).status == 303) }
            #expect(try await get("\(listener.redirectURI)?right").status == 200)
            #expect(try await listener.answer(within: hangLimit) == .success("c"))
            await stranger.stop(SIGKILL)
        }
    }

    private static let holder = #"""
        import socket, sys, threading, time
        port, connections = int(sys.argv[1]), int(sys.argv[2])

        def hold():
            while True:
                try:
                    with socket.create_connection(('127.0.0.1', port), 30) as end: end.recv(1)
                except OSError: pass
                time.sleep(0.05)

        for _ in range(connections): threading.Thread(target=hold, daemon=True).start()
        time.sleep(1)
        print('holding', flush=True)
        time.sleep(120)
        """#

    @Test(.softwareTPM) func `the browser's argument contains nothing of the request`() async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start(
                browser: TwiceVisitingBrowser(browser: bench.browser))
            try await container.authorize()
            #expect(try await container.sessionState == .authenticated)
        }
    }
}

/// A browser that looks at the page before it shows it.
private struct TwiceVisitingBrowser: Browser {
    let browser: VisitingBrowser

    func open(_ url: String) async throws {
        #expect(URLComponents(string: url)?.queryItems == nil)
        let page = try #require(try await get(url).location)
        #expect(page.contains("state="))
        try await browser.open(url)
    }
}
