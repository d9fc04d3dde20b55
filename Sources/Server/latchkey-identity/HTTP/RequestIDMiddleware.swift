import HTTPTypes
import Hummingbird
import Logging

/// Gives each request an ID, which its log entries and the header `X-Request-ID` of the response
/// contain.
///
/// The ID is the trace ID of the request's `traceparent`, or random. A client can choose it, so it
/// proves nothing.
struct RequestIDMiddleware: RouterMiddleware {
    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        let trace =
            request.headers[named: "traceparent"].flatMap(TraceContext.init(traceparent:))
            ?? TraceContext()
        var context = context
        // The names of OpenTelemetry (trace context in non-OTLP logs).
        context.logger[metadataKey: "trace_id"] = "\(trace.traceID)"
        if let spanID = trace.spanID { context.logger[metadataKey: "span_id"] = "\(spanID)" }
        var response = try await next(request, context)
        context.logger.info(
            "answered",
            metadata: [
                "method": "\(request.method)", "route": "\(context.endpointPath ?? "none")",
                "status": "\(response.status.code)",
            ])
        response.headers[named: "X-Request-ID"] = trace.traceID
        return response
    }
}

/// The position of a request in a distributed trace (W3C Trace Context).
struct TraceContext: Hashable, Sendable {
    private static let digits = Array("0123456789abcdef")
    /// The length of version 00 of the header in bytes: version, trace ID, parent ID and flags.
    private static let headerLength = 55

    /// 32 hexadecimal digits.
    let traceID: String
    /// The caller's span: 16 hexadecimal digits; nil without a valid header.
    let spanID: String?

    /// Creates a random trace ID.
    init() {
        traceID = String((0..<32).map { _ in Self.digits[.random(in: Self.digits.indices)] })
        spanID = nil
    }

    /// Reads a `traceparent` (section 3.2), at most its first 56 bytes. Later versions may add
    /// fields at the end.
    ///
    /// - Returns: nil if it is malformed.
    init?(traceparent: String) {
        let bytes = Array(traceparent.utf8.prefix(Self.headerLength + 1))
        let dash = UInt8(ascii: "-")
        let fields = bytes.prefix(Self.headerLength).split(
            separator: dash, omittingEmptySubsequences: false)
        guard
            fields.map(\.count) == [2, 32, 16, 2], fields.joined().allSatisfy(Self.isDigit),
            !fields[0].elementsEqual("ff".utf8), Self.isNonzero(fields[1]),
            Self.isNonzero(fields[2])
        else { return nil }
        if bytes.count > Self.headerLength {
            guard !fields[0].elementsEqual("00".utf8), bytes.last == dash else { return nil }
        }
        traceID = String(decoding: fields[1], as: UTF8.self)
        spanID = String(decoding: fields[2], as: UTF8.self)
    }

    /// Whether a byte is a digit of lower-case hexadecimal.
    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    private static func isNonzero(_ digits: ArraySlice<UInt8>) -> Bool {
        digits.contains { $0 != UInt8(ascii: "0") }
    }
}
