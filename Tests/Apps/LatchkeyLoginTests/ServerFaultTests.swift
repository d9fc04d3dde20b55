import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// A server that answers any one request with something else: the key is there as before, or not at
/// all, and the next attempt works.
@Suite(.softwareTPM, .timeLimit(.minutes(15)))
struct ServerFaultTests {
    enum Operation: CaseIterable { case enable, authenticate, disable }

    enum Answer: CaseIterable {
        case redirect, tooMany, overload, page, emptyObject, nothing, lateness

        var step: RecordingTransport.Step {
            switch self {
            case .redirect:
                .respond(
                    HTTPResponse(
                        status: .found, headerFields: [.location: "https://elsewhere.test/"]), [])
            case .tooMany:
                .respond(
                    HTTPResponse(status: .tooManyRequests, headerFields: [.retryAfter: "3600"]), [])
            case .overload:
                .respond(
                    HTTPResponse(status: .serviceUnavailable),
                    Array("<html>come back later</html>".utf8))
            case .page:
                .respond(
                    HTTPResponse(status: .ok, headerFields: [.contentType: "text/html"]),
                    Array("<html>log in to this network</html>".utf8))
            case .emptyObject: .json("{}")
            case .nothing: .respond(HTTPResponse(status: .ok), [])
            case .lateness: .fail(noNetwork)
            }
        }
    }

    @Test(arguments: Operation.allCases, Answer.allCases)
    func `nothing is lost, and the next call succeeds`(_ operation: Operation, _ answer: Answer)
        async throws
    {
        var index = 0
        var isMet = true
        while isMet {
            try await Bench.with { bench in
                let before = try await bench.start()
                try await before.authorize()
                if operation != .enable { try await before.enableBiometric() }
                let wire = RecordingTransport(
                    Array(repeating: .forward, count: index) + [answer.step],
                    forwardingTo: bench.identity)
                let error = await failure(of: operation, in: try await bench.start(transport: wire))
                isMet = wire.recordings.count > index
                let place =
                    wire.recordings.indices.contains(index)
                    ? wire.recordings[index].request.path : nil
                let situation =
                    "\(operation), \(answer) to request \(index), \(place ?? "none"): \(error as Any)"
                if answer == .tooMany, isMet, let error {
                    #expect(error.code == .rateLimited, "\(situation)")
                }
                if !isMet { #expect(error == nil, "\(situation)") }
                #expect(error?.recovery.isEmpty != true, "\(situation)")
                try await check(operation, try await bench.start(), situation)
            }
            index += 1
        }
        #expect(index > 2)
    }

    private func failure(of operation: Operation, in container: Container) async -> LoginError? {
        do {
            switch operation {
            case .enable: _ = try await container.enableBiometric()
            case .authenticate: _ = try await container.authenticateBiometric()
            case .disable: try await container.disableBiometric()
            }
            return nil
        } catch let error as LoginError {
            return error
        } catch {
            Issue.record("\(error)")
            return nil
        }
    }

    /// Checks the state of a new program with a working server.
    private func check(_ operation: Operation, _ container: Container, _ situation: String)
        async throws
    {
        let isEnabled = try await container.isBiometricEnabled()
        switch operation {
        case .enable:
            if !isEnabled { try await container.enableBiometric() }
            do {
                try await container.authenticateBiometric()
            } catch {
                // The protocol's answer to a new key is 200 and no more: who says that in the
                // server's place is found out here.
                #expect(
                    error as? LoginError == login(.identityNotFound) && isEnabled, "\(situation)")
                try await container.enableBiometric()
                try await container.authenticateBiometric()
            }
        case .authenticate:
            #expect(isEnabled, "\(situation)")
            try await container.authenticateBiometric()
        case .disable:
            if isEnabled {
                try await container.authenticateBiometric()
                try await container.disableBiometric()
            } else {
                await #expect(throws: login(.notEnabled)) {
                    try await container.authenticateBiometric()
                }
            }
        }
    }
}
