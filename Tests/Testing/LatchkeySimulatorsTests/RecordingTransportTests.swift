import HTTPTypes
import Latchkey
import LatchkeyTesting
import Testing

@Suite struct `A recording transport` {
    private let request = HTTPRequest(
        method: .post, scheme: "https", authority: "example.com", path: "/token")
    private let error = KeystoreError(
        operation: "send", code: .unavailable, reason: "the network is down", recovery: "Wait.")

    @Test func `follows its steps in order and records the requests`() async throws {
        let transport = RecordingTransport([.json(#"{"a":1}"#, status: .created), .fail(error)])
        let (response, body) = try await transport.send(request, body: Array("one".utf8))
        #expect(response.status == .created)
        #expect(response.headerFields[.contentType] == "application/json")
        #expect(String(decoding: body, as: UTF8.self) == #"{"a":1}"#)
        await #expect(throws: error) { try await transport.send(request, body: Array("two".utf8)) }
        #expect(transport.recordings.map(\.text) == ["one", "two"])
        #expect(transport.recordings.first?.request.path == "/token")
    }

    @Test func `forwards a request and loses the response`() async throws {
        let server = RecordingTransport([.json("1"), .json("2")])
        let transport = RecordingTransport([.loseResponse(error)], forwardingTo: server)
        await #expect(throws: error) { try await transport.send(request, body: []) }
        #expect(server.recordings.count == 1, "the server got the request")
        #expect(try await transport.send(request, body: []).1 == Array("2".utf8))
    }

    @Test func `fails when the script has no step left`() async throws {
        let failure = await #expect(throws: KeystoreError.self) {
            try await RecordingTransport().send(request, body: [])
        }
        #expect(failure?.code == .failed)
    }
}
