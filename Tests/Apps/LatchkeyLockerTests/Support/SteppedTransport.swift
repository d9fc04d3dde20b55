import HTTPTypes
import Latchkey
import LatchkeyOAuth

/// The requests of one program.
struct SteppedTransport: HTTPTransport {
    let line: Line
    let steps: Steps

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        try await steps.perform(request.path ?? "", failing: Line.noNetwork) {
            () throws(KeystoreError) in
            try await line.send(request, body: body)
        }
    }
}
