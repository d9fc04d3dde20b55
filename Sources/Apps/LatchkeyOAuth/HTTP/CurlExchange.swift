internal import CCurl
internal import Glibc
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyPlatform

/// One request and its response. After its creation it is used only on the session's thread.
final class CurlExchange: @unchecked Sendable {
    /// The limits that a transport sets for each request.
    struct Limits {
        let timeoutSeconds: Int
        /// The time for which a connection is kept for another request. Servers keep connections
        /// for 5 s or more, and a `POST` on a connection that the server closes at the same moment
        /// fails.
        var idleSeconds = 4
        static let connectSeconds = 10
        static let bodyBytes = 1 << 20
        /// Status lines, fields and trailer fields together.
        static let headBytes = 128 << 10
        static let interimResponses = 8
    }

    enum Outcome: Sendable {
        case response(HTTPResponse, [UInt8])
        case failed(Failure)
    }

    struct Failure: Error {
        enum Cause {
            case cancelled, connectTimeout, timeout, unknownHost, invalidStatus, invalidResponse,
                tooLong, outOfMemory
            /// The server closed the connection before the response was complete.
            case connectionEnded
            /// The connection failed with this `errno`.
            case unreachable(Int32)
            /// The proxy answered `CONNECT` with this status.
            case refusedByProxy(Int)
            /// OpenSSL's result of the verification (X509_verify_cert_error_string(3)).
            case untrustedCertificate(Int)
            case certificateOfOtherHost
            /// libcurl is too old.
            case refusedOption
        }

        let cause: Cause
        /// The code of libcurl.
        var code: UInt32 = 0
        var text = ""

        /// Whether there was a connection.
        var isFromConnection: Bool {
            switch cause {
            case .cancelled, .connectTimeout, .unknownHost, .unreachable, .outOfMemory,
                .refusedOption:
                false
            default: true
            }
        }
    }

    private let endpoint: Endpoint
    private let request: HTTPRequest
    private let body: [UInt8]
    let limits: Limits
    private let authorities: String?

    var isCancelled = false
    private var fields: UnsafeMutablePointer<curl_slist>?
    private var isSent = false
    private var head = ResponseHead()
    private var received: [UInt8] = []
    private var violation: Failure.Cause?
    private let message = UnsafeMutableBufferPointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    /// - Parameter authorities: A file of the trusted authorities' certificates (PEM); nil for the
    ///   system's.
    init(
        _ request: HTTPRequest, _ body: [UInt8], to endpoint: Endpoint, limits: Limits,
        authorities: String?
    ) {
        self.endpoint = endpoint
        self.request = request
        self.body = body
        self.limits = limits
        self.authorities = authorities
        message.initialize(repeating: 0)
    }

    deinit {
        curl_slist_free_all(fields)
        message.deallocate()
    }

    /// Sets the options of libcurl, once. The handle must not outlive this object.
    func configure(_ handle: CurlHandle) throws(CurlHandle.RefusedOption) {
        try handle.set(CURLOPT_ERRORBUFFER, message.baseAddress)
        try handle.set(CURLOPT_URL, endpoint.text)
        try handle.set(CURLOPT_PATH_AS_IS, 1)
        try handle.set(CURLOPT_PROTOCOLS_STR, endpoint.scheme)
        // With HTTP/2, a server can send any number as the status.
        try handle.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try handle.set(CURLOPT_FOLLOWLOCATION, 0)
        try handle.set(CURLOPT_NETRC, 0)
        try handle.set(CURLOPT_NOSIGNAL, 1)
        // A thread that still looks up a host's name does not delay a timeout or a cancellation.
        try handle.set(CURLOPT_QUICK_EXIT, 1)
        try handle.set(CURLOPT_TIMEOUT_MS, max(1, min(limits.timeoutSeconds, 86_400) * 1000))
        try handle.set(CURLOPT_CONNECTTIMEOUT_MS, Limits.connectSeconds * 1000)
        try handle.set(CURLOPT_MAXAGE_CONN, limits.idleSeconds)
        try setTrust(handle)
        try setRequest(handle)
        try setCallbacks(handle)
    }

    private func setTrust(_ handle: CurlHandle) throws(CurlHandle.RefusedOption) {
        try handle.set(CURLOPT_SSL_VERIFYPEER, 1)
        try handle.set(CURLOPT_SSL_VERIFYHOST, 2)
        try handle.set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let authorities {
            try handle.set(CURLOPT_CAINFO, authorities)
            try handle.set(CURLOPT_CAPATH, nil)
        }
        // The proxy receives an encrypted stream, and not the fields of the request.
        if endpoint.isLoopback { try handle.set(CURLOPT_PROXY, "") }
        try handle.set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
        try handle.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
    }

    private func setRequest(_ handle: CurlHandle) throws(CurlHandle.RefusedOption) {
        let method = request.method
        if method == .head {
            try handle.set(CURLOPT_NOBODY, 1)
        } else if !body.isEmpty || [.post, .put, .patch].contains(method) {
            try handle.set(CURLOPT_POST, 1)
            try handle.set(CURLOPT_POSTFIELDSIZE, body.count)
            try handle.set(CURLOPT_COPYPOSTFIELDS, body)
        }
        try handle.set(CURLOPT_CUSTOMREQUEST, method.rawValue)
        // The body of a server that compresses all the same is decompressed.
        try handle.set(CURLOPT_ACCEPT_ENCODING, "identity")
        // libcurl adds these fields unless a line with only the name and a colon removes them.
        var lines = ["Expect:"]
        for name in [HTTPField.Name.accept, .contentType] where request.headerFields[name] == nil {
            lines.append("\(name.rawName):")
        }
        lines += request.headerFields.map {
            $0.value.isEmpty ? "\($0.name.rawName);" : "\($0.name.rawName): \($0.value)"
        }
        for line in lines {
            guard let longer = curl_slist_append(fields, line) else {
                throw .init(code: CURLE_OUT_OF_MEMORY)
            }
            fields = longer
        }
        try handle.set(CURLOPT_HTTPHEADER, UnsafeRawPointer(fields))
    }

    private func setCallbacks(_ handle: CurlHandle) throws(CurlHandle.RefusedOption) {
        let context = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
        try handle.set(CURLOPT_HEADERDATA, context)
        try handle.set(CURLOPT_WRITEDATA, context)
        try handle.set(CURLOPT_PREREQDATA, context)
        try handle.set(CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            CurlExchange.at(context)?.take(
                line: UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
        }
        try handle.set(CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            CurlExchange.at(context)?.take(
                body: UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? 0
        }
        try handle.setPrerequest { context, server, client, serverPort, clientPort in
            let server = server.flatMap {
                TCPSocket.End(String(cString: $0), port: Int(serverPort))
            }
            let client = client.flatMap {
                TCPSocket.End(String(cString: $0), port: Int(clientPort))
            }
            let isAllowed = CurlExchange.at(context)?.allowsSending(to: server, from: client)
            return isAllowed == true ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }
        // Child processes do not inherit the connection.
        try handle.setOpener { _, _, address in
            guard let address = address?.pointee else { return -1 }
            return socket(
                address.family, address.socktype | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
        }
    }

    private static func at(_ context: UnsafeMutableRawPointer?) -> CurlExchange? {
        context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    /// Whether the request may be sent on the connection. Plain HTTP is sent only to a server of
    /// root or of this user. The check follows the connection, so a program of another user that
    /// took the port earlier receives nothing.
    ///
    /// libcurl repeats a request if a kept connection ends without a response. The server may have
    /// executed the first one, so only a repetition that changes nothing is allowed.
    private func allowsSending(to server: TCPSocket.End?, from client: TCPSocket.End?) -> Bool {
        guard !isSent || request.method == .get || request.method == .head else { return false }
        isSent = true
        guard endpoint.scheme == "http" else { return true }
        guard let server, let client, server.isLoopback else { return false }
        return LoopbackServerOwner(of: server, connectedTo: client) == .trusted
    }

    private func take(line: UnsafeRawBufferPointer) -> Int {
        do throws(Failure) {
            try head.append(line)
            return line.count
        } catch {
            violation = error.cause
            return 0
        }
    }

    private func take(body: UnsafeRawBufferPointer) -> Int {
        guard received.count + body.count <= Limits.bodyBytes else {
            violation = .tooLong
            return 0
        }
        received += body
        return body.count
    }

    /// The result of the request, or of a refused option.
    func outcome(_ code: CURLcode, _ handle: CurlHandle) -> Outcome {
        if code == CURLE_OK, violation == nil, let response = head.response {
            return .response(response, received)
        }
        let detail = String(
            decoding: message.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let text =
            detail.isEmpty
            ? curl_easy_strerror(code).map { String(cString: $0) } ?? "" : detail
        let cause = violation ?? cause(of: code, handle)
        return .failed(Failure(cause: cause, code: code.rawValue, text: text))
    }

    private func cause(of code: CURLcode, _ handle: CurlHandle) -> Failure.Cause {
        let proxyStatus = handle.number(CURLINFO_HTTP_CONNECTCODE)
        switch code {
        case _ where proxyStatus != 0 && !(200...299).contains(proxyStatus):
            return .refusedByProxy(proxyStatus)
        // The time limit for connecting is fixed. A shorter timeout ends the request before this
        // limit.
        case CURLE_OPERATION_TIMEDOUT:
            return isSent || limits.timeoutSeconds <= Limits.connectSeconds
                ? .timeout : .connectTimeout
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: return .unknownHost
        case CURLE_COULDNT_CONNECT:
            return .unreachable(Int32(truncatingIfNeeded: handle.number(CURLINFO_OS_ERRNO)))
        // libcurl leaves 1 (X509_V_ERR_UNSPECIFIED) if OpenSSL accepted the certificate and the
        // host differs.
        case CURLE_PEER_FAILED_VERIFICATION:
            let result = handle.number(CURLINFO_SSL_VERIFYRESULT)
            return result > 1 ? .untrustedCertificate(result) : .certificateOfOtherHost
        case CURLE_OUT_OF_MEMORY: return .outOfMemory
        case CURLE_UNKNOWN_OPTION, CURLE_NOT_BUILT_IN, CURLE_BAD_FUNCTION_ARGUMENT:
            return .refusedOption
        // `allowsSending` ends a request whose connection ended (CURLE_ABORTED_BY_CALLBACK).
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE,
            CURLE_ABORTED_BY_CALLBACK:
            return .connectionEnded
        default: return .invalidResponse
        }
    }
}
