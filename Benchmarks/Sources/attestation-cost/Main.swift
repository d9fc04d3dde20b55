import CAllocations
import Foundation
import Glibc
import LatchkeyRelyingParty

/// Measures the cost at which the server verifies each request of an enrolment, and prints the
/// costs as JSON for `bench`.
///
/// It is a separate program, because its counting allocator would slow down the other measurements.
@main struct Main {
    private struct Cost: Encodable {
        let request: String
        let isHonest: Bool
        /// `accepted`, or the code of the refusal.
        let outcome: String
        let milliseconds: Double
        /// The maximum memory in use, above the memory in use before the request, without the
        /// stack.
        let bytes: Int
    }

    private static let rounds = 21

    static func main() async throws {
        let requests = try Requests()
        var costs: [Cost] = []
        for request in try requests.activations() + requests.statements() {
            let cost = try await measure(request)
            guard !request.isHonest || cost.outcome == accepted else {
                throw Failure(description: "the server refused \(request.name): \(cost.outcome)")
            }
            guard request.isHonest || cost.outcome != accepted else {
                throw Failure(description: "the server accepted \(request.name)")
            }
            costs.append(cost)
        }
        FileHandle.standardOutput.write(try JSONEncoder().encode(costs))
    }

    private static let accepted = "accepted"

    private static func measure(_ request: MeasuredRequest) async throws -> Cost {
        // The first, unmeasured round fills the caches of the runtime and of the cryptographic
        // library.
        let outcome = try await outcome(of: request)
        var seconds: [Double] = []
        var bytes = 0
        for _ in 0..<rounds {
            let start = processorTime
            allocations_begin()
            _ = try await Self.outcome(of: request)
            bytes = max(bytes, allocations_peak())
            seconds.append(processorTime - start)
        }
        return Cost(
            request: request.name, isHonest: request.isHonest, outcome: outcome,
            milliseconds: seconds.sorted()[rounds / 2] * 1000, bytes: bytes)
    }

    private static func outcome(of request: MeasuredRequest) async throws -> String {
        do {
            try await request.verify()
            return accepted
        } catch let error as AttestationError {
            return error.code.rawValue
        }
    }

    /// The processor time of this process in seconds. Nothing else runs in it.
    private static var processorTime: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// A request and the server's work for it.
struct MeasuredRequest {
    let name: String
    let isHonest: Bool
    let verify: () async throws -> Void
}

/// The reason why the measurement is invalid.
struct Failure: Error, CustomStringConvertible {
    let description: String
}
