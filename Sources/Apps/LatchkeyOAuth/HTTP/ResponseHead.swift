internal import HTTPTypes

/// Parses the lines of a response up to its body, one at a time, with limits.
///
/// Interim responses (RFC 9110 section 15.2) are dropped. The program requests none, so a server
/// that sends many is refused.
struct ResponseHead {
    typealias Failure = CurlExchange.Failure

    private enum Part { case status, fields, body }

    private var part = Part.status
    private var bytes = 0
    private var interimResponses = 0
    private var status = 0
    private var fields = HTTPFields()

    /// nil until the head of a response that is not interim is complete.
    var response: HTTPResponse? {
        part == .body ? HTTPResponse(status: .init(code: status), headerFields: fields) : nil
    }

    mutating func append(_ line: UnsafeRawBufferPointer) throws(Failure) {
        bytes += line.count
        guard bytes <= CurlExchange.Limits.headBytes else { throw Failure(cause: .invalidResponse) }
        let text = String(decoding: line, as: UTF8.self).trimmingSuffix { $0.isNewline }
        switch part {
        case .status:
            status = try Self.status(text)
            part = .fields
        case .fields where text.isEmpty && status < 200:
            interimResponses += 1
            guard interimResponses <= CurlExchange.Limits.interimResponses else {
                throw Failure(cause: .invalidStatus)
            }
            fields = HTTPFields()
            part = .status
        case .fields where text.isEmpty: part = .body
        case .fields: try appendField(text)
        // Trailer fields (RFC 9110 section 6.5) are ignored.
        case .body: return
        }
    }

    /// - Returns: 200...599, or the code of an interim response. 101 is refused because no request
    ///   asks for an upgrade.
    private static func status(_ line: Substring) throws(Failure) -> Int {
        guard line.hasPrefix("HTTP/1.") else { throw Failure(cause: .invalidResponse) }
        let code = line.drop { $0 != " " }.dropFirst().prefix { $0 != " " }
        guard code.utf8.count == 3, code.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let code = Int(code),
            (200...599).contains(code) || code == 100 || (102...199).contains(code)
        else { throw Failure(cause: .invalidStatus) }
        return code
    }

    /// Lines that continue the line before them (obsolete, RFC 9112 section 5.2) and compression in
    /// `Transfer-Encoding` are refused.
    private mutating func appendField(_ line: Substring) throws(Failure) {
        guard let colon = line.firstIndex(of: ":"),
            let name = HTTPField.Name(String(line[..<colon]))
        else {
            throw Failure(cause: .invalidResponse)
        }
        let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            .trimmingSuffix { $0 == " " || $0 == "\t" }
        guard name != .transferEncoding || value.lowercased() == "chunked" else {
            throw Failure(cause: .invalidResponse)
        }
        fields.append(HTTPField(name: name, value: String(value)))
    }
}

extension StringProtocol where SubSequence == Substring {
    fileprivate func trimmingSuffix(while isDropped: (Character) -> Bool) -> Substring {
        var rest = self[...]
        while let last = rest.last, isDropped(last) { rest = rest.dropLast() }
        return rest
    }
}
