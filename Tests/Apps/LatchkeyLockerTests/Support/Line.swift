import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth
import Synchronization

/// The network between a program and its server. It can be down, and fail at any request.
final class Line: HTTPTransport {
    /// What happens to a request.
    enum Fault: Sendable {
        /// The request is not sent.
        case cut
        /// The server handles the request, and its answer is lost.
        case lost
        /// The request is not sent, and the call does not return: the program is killed before it.
        case stopBefore
        /// The server handles the request, and the call does not return: the program is killed
        /// after it.
        case stopAfter
        /// The server handles the request, and its answer is late.
        case late
        /// The request is sent late, even if the call was cancelled.
        case held
        /// A text of the server's answer is replaced.
        case altered(String, to: String)
        /// The server seems to answer this.
        case answer(status: Int, body: String)
    }

    struct Sent: Sendable {
        let path: String
        let body: String
    }

    private struct State {
        var isDown = false
        var faults: [(path: String, isSuffix: Bool, skip: Int, fault: Fault)] = []
        var sent: [Sent] = []
        var enrolments: Set<String> = []
        var stopped: [CheckedContinuation<Void, Never>] = []
        var isReached = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isOver = false
    }

    /// An enrolment as the server has it.
    private struct Answer: Decodable { let enrolment_id: String }

    private let next = CurlTransport()
    private let state = Mutex(State())

    var isDown: Bool {
        get { state.withLock { $0.isDown } }
        set { state.withLock { $0.isDown = newValue } }
    }

    /// All requests, also those that were not sent.
    var sent: [Sent] { state.withLock { $0.sent } }

    /// The enrolments that the server has made and not deleted.
    var existingEnrolments: Set<String> { state.withLock { $0.enrolments } }

    func forgetEnrolments() { state.withLock { $0.enrolments = [] } }

    /// - Parameters:
    /// - suffix: The end of the path.
    /// - skip: The number of such requests before the fault.
    func fail(at suffix: String, skip: Int = 0, _ fault: Fault) {
        state.withLock { $0.faults.append((suffix, true, skip, fault)) }
    }

    /// Removes the faults that have not happened.
    func heal() { state.withLock { $0.faults = [] } }

    /// - Parameter text: A part of the path.
    func fail(containing text: String, _ fault: Fault) {
        state.withLock { $0.faults.append((text, false, 0, fault)) }
    }

    /// Waits until a program has stopped at a request.
    func reached() async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if !state.isReached { state.waiting.append(continuation) }
                return state.isReached
            }
            if isReached { continuation.resume() }
        }
    }

    /// Ends stopped programs with the error of a missing network.
    func release() {
        let stopped = state.withLock { state in
            defer { state.stopped = [] }
            state.isReached = false
            return state.stopped
        }
        for continuation in stopped { continuation.resume() }
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let path = request.path ?? ""
        let (isDown, fault) = state.withLock { state in
            state.sent.append(Sent(path: path, body: String(decoding: body, as: UTF8.self)))
            guard
                let index = state.faults.firstIndex(where: {
                    $0.isSuffix ? path.hasSuffix($0.path) : path.contains($0.path)
                })
            else {
                return (state.isDown, Fault?.none)
            }
            guard state.faults[index].skip == 0 else {
                state.faults[index].skip -= 1
                return (state.isDown, nil)
            }
            return (state.isDown, state.faults.remove(at: index).fault)
        }
        guard !isDown else { throw Self.noNetwork }
        switch fault {
        case nil: return try await forward(request, body)
        case .cut: throw Self.noNetwork
        case .lost:
            _ = try await forward(request, body)
            throw Self.noNetwork
        case .stopBefore: try await stop()
        case .stopAfter:
            _ = try await forward(request, body)
            try await stop()
        case .late:
            let answer = try await forward(request, body)
            try await stop()
            return answer
        case .held:
            try await stop()
            let result = await Task { () -> Result<(HTTPResponse, [UInt8]), KeystoreError> in
                do throws(KeystoreError) { return .success(try await forward(request, body)) } catch
                {
                    return .failure(error)
                }
            }.value
            return try result.get()
        case .altered(let text, let other):
            let (response, answer) = try await forward(request, body)
            return (
                response,
                Array(String(decoding: answer, as: UTF8.self).replacing(text, with: other).utf8)
            )
        case .answer(let status, let text):
            return (HTTPResponse(status: .init(code: status)), Array(text.utf8))
        }
        throw Self.noNetwork
    }

    /// Records the enrolments that the server makes and deletes.
    private func forward(
        _ request: HTTPRequest, _ body: [UInt8]
    ) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let (response, answer) = try await next.send(request, body: body)
        guard (200..<300).contains(response.status.code), let path = request.path else {
            return (response, answer)
        }
        if path.hasSuffix("/enrolments"),
            let made = try? JSONDecoder().decode(Answer.self, from: Data(answer))
        {
            state.withLock { _ = $0.enrolments.insert(made.enrolment_id) }
        } else if path.hasSuffix("/revoke") {
            state.withLock { state in
                state.enrolments = state.enrolments.filter { !path.hasSuffix("/\($0)/revoke") }
            }
        }
        return (response, answer)
    }

    private func stop() async throws(KeystoreError) {
        await withCheckedContinuation { continuation in
            let waiting = state.withLock { state in
                state.stopped.append(continuation)
                state.isReached = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for waiter in waiting { waiter.resume() }
        }
    }

    static let noNetwork = KeystoreError(
        operation: "reach the server", code: .unavailable, reason: "the cable is out",
        recovery: "Put it in.")
}
