internal import FoundationEssentials

/// Reads files of certificates as manufacturers and other programs write them.
enum CertificateFile {
    /// A certificate, or another part of a PEM file.
    struct Part: Hashable {
        /// The label of RFC 7468.
        let label: String
        /// nil if it is malformed.
        let der: Data?
    }

    /// The labels of certificates. OpenSSL also reads the second one.
    static let labels: Set<String> = ["CERTIFICATE", "X509 CERTIFICATE"]

    /// The parts of a file: certificates in DER, one after another, or any PEM.
    static func parts(of bytes: Data) -> [Part] {
        // The length of a certificate in DER has more than one byte; a PEM file may begin with text.
        guard bytes.count > 1, bytes[bytes.startIndex] == 0x30,
            bytes[bytes.startIndex + 1] >= 0x80
        else { return pem(String(decoding: bytes, as: UTF8.self)) }
        var (parts, rest) = ([Part](), bytes)
        repeat {
            let der = HardwareCertificate.withoutPadding(rest)
            parts.append(Part(label: "CERTIFICATE", der: der))
            // Some files end in a line break, and NV indices in padding.
            let padding: [UInt8] = [0, 0xFF, 0x0A, 0x0D]
            rest = rest.dropFirst(der.count).drop(while: padding.contains)
        } while !rest.isEmpty
        return parts
    }

    /// The parts of a PEM file, with any text between them. A malformed part does not affect the
    /// others.
    private static func pem(_ text: String) -> [Part] {
        var parts: [Part] = []
        var open: String?
        var body = ""
        for line in text.split(whereSeparator: \.isNewline) {
            if let label = label("BEGIN", in: line) {
                if let open { parts.append(Part(label: open, der: nil)) }
                (open, body) = (label, "")
            } else if let label = open, line.contains("-----END ") {
                let isOwn = Self.label("END", in: line) == label
                parts.append(Part(label: label, der: isOwn ? Data(base64Encoded: body) : nil))
                open = nil
            } else if open != nil, !line.contains(":") {
                // A line with a colon is a header of an older form.
                body += line.filter { !$0.isWhitespace }
            }
        }
        if let open { parts.append(Part(label: open, der: nil)) }
        return parts
    }

    private static func label(_ word: String, in line: Substring) -> String? {
        guard let start = line.firstRange(of: "-----\(word) ")?.upperBound,
            let end = line[start...].firstRange(of: "-----")?.lowerBound
        else { return nil }
        return String(line[start..<end])
    }
}
