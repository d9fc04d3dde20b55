internal import FoundationEssentials
internal import SwiftASN1

/// The fields of an X.509 certificate (RFC 5280 section 4.1) that a chain of attestation needs.
///
/// Certificates of TPMs have defects that strict parsers refuse: unsorted SETs in names, negative
/// serial numbers, padding. So names stay raw bytes, and only the key, the dates and four
/// extensions are decoded.
struct HardwareCertificate: Hashable, Sendable {
    /// The maximum size in bytes.
    static let maximumBytes = 4096
    /// The maximum size of the certificates of one request in bytes, without padding. With
    /// ``maximumNodes``, it keeps the memory of a request below 64 KiB.
    static let maximumChainBytes = 8192
    /// The maximum number of ASN.1 nodes. Genuine certificates have fewer than 200. The parser
    /// allocates about 100 bytes for each node, so this limits its memory.
    static let maximumNodes = 250

    /// An extension that this type does not decode, or that it decodes for the caller.
    struct Extension: Hashable, Sendable {
        let id: ASN1ObjectIdentifier
        let isCritical: Bool
        let value: ArraySlice<UInt8>
    }

    /// The reason why bytes are not a certificate.
    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    /// The whole certificate, DER, without padding.
    let der: Data
    /// `TBSCertificate`, the bytes that the issuer signed.
    let signedBytes: ArraySlice<UInt8>
    /// The content of the serial number, of any sign and length.
    let serialNumber: ArraySlice<UInt8>
    /// The issuer's name, DER.
    let issuer: ArraySlice<UInt8>
    /// The subject's name, DER.
    let subject: ArraySlice<UInt8>
    /// The first and the last second of validity, in seconds since 1970.
    let validity: ClosedRange<Int64>
    /// SubjectPublicKeyInfo, DER.
    let publicKeyInfo: ArraySlice<UInt8>
    /// The algorithm of ``signature``.
    let signatureAlgorithm: ASN1ObjectIdentifier
    /// The parameters of ``signatureAlgorithm``, DER; empty if there are none.
    let signatureParameters: ArraySlice<UInt8>
    /// The issuer's signature.
    let signature: ArraySlice<UInt8>
    /// The certificate's version: 0, 1 or 2 for versions 1, 2 and 3.
    let version: Int
    /// All extensions. Each identifier occurs once.
    let extensions: [Extension]

    /// Reads a certificate of exactly these bytes.
    init(_ der: Data) throws(Malformed) {
        guard der.count <= Self.maximumBytes else {
            throw Malformed(description: "it has \(der.count) bytes")
        }
        let bytes = Array(der)
        guard Self.hasFewNodes(bytes) else {
            throw Malformed(description: "it has more than \(Self.maximumNodes) nodes")
        }
        do {
            let parts = try Self.children(try DER.parse(bytes), .sequence, 3...3)
            self = try Self(der: der, body: parts[0], algorithm: parts[1], signature: parts[2])
        } catch {
            throw Malformed(description: "\(error)")
        }
    }

    private init(der: Data, body: ASN1Node, algorithm: ASN1Node, signature: ASN1Node) throws {
        var fields = try Self.children(body, .sequence, 6...10)[...]
        if fields.first?.identifier == Self.tag(0), let field = fields.popFirst() {
            version = try Int(derEncoded: try Self.children(field, Self.tag(0), 1...1)[0])
        } else {
            version = 0
        }
        guard fields.count >= 6 else { throw Malformed(description: "fields are missing") }
        let first = fields.startIndex
        guard fields[first + 1].encodedBytes == algorithm.encodedBytes else {
            throw Malformed(description: "the two signature algorithms differ")
        }
        self.der = der
        signedBytes = body.encodedBytes
        serialNumber = try Self.content(fields[first], .integer)
        issuer = try Self.name(fields[first + 2])
        let dates = try Self.children(fields[first + 3], .sequence, 2...2)
        let (start, end) = (try Self.seconds(dates[0]), try Self.seconds(dates[1]))
        guard start <= end else {
            throw Malformed(description: "the validity ends before it begins")
        }
        validity = start...end
        subject = try Self.name(fields[first + 4])
        publicKeyInfo = fields[first + 5].encodedBytes
        let parts = try Self.children(algorithm, .sequence, 1...2)
        signatureAlgorithm = try ASN1ObjectIdentifier(derEncoded: parts[0])
        signatureParameters = parts.dropFirst().first?.encodedBytes ?? []
        let bits = try ASN1BitString(derEncoded: signature)
        guard bits.paddingBits == 0 else {
            throw Malformed(description: "the signature is not a whole number of bytes")
        }
        self.signature = bits.bytes
        extensions = try Self.extensions(of: fields.dropFirst(6))
    }

    private static func extensions(of fields: ArraySlice<ASN1Node>) throws -> [Extension] {
        guard let field = fields.last, field.identifier == tag(3) else { return [] }
        var extensions: [Extension] = []
        for node in try children(try children(field, tag(3), 1...1)[0], .sequence, 1...32) {
            let parts = try children(node, .sequence, 2...3)
            let id = try ASN1ObjectIdentifier(derEncoded: parts[0])
            guard !extensions.contains(where: { $0.id == id }) else {
                throw Malformed(description: "an extension occurs twice")
            }
            let isCritical = parts.count == 3 ? try Bool(derEncoded: parts[1]) : false
            let value = try content(parts[parts.count - 1], .octetString)
            extensions.append(Extension(id: id, isCritical: isCritical, value: value))
        }
        return extensions
    }
}

extension HardwareCertificate {
    /// The certificate at the start of the bytes. NV indices contain padding after it.
    ///
    /// - Returns: The bytes without padding, or all bytes if they do not begin with `30 82` and a
    ///   sufficient length.
    static func withoutPadding(_ bytes: Data) -> Data {
        let header = Array(bytes.prefix(4))
        guard header.count == 4, header[0] == 0x30, header[1] == 0x82 else { return bytes }
        return Data(bytes.prefix(4 + (Int(header[2]) << 8 | Int(header[3]))))
    }

    /// Whether the certificate is valid at this time, in seconds since 1970.
    func isValid(at time: Int64) -> Bool { validity.contains(time) }

    /// The extension with this identifier.
    func find(_ id: ASN1ObjectIdentifier) -> Extension? { extensions.first { $0.id == id } }

    /// basicConstraints (RFC 5280 section 4.2.1.9), or nil if the extension is absent.
    func basicConstraints() throws(Malformed) -> (isAuthority: Bool, pathLength: Int?)? {
        guard let found = find(.CertificateExtension.basicConstraints) else { return nil }
        do {
            var parts = try Self.children(try DER.parse(found.value), .sequence, 0...2)[...]
            var isAuthority = false
            if parts.first?.identifier == .boolean, let part = parts.popFirst() {
                isAuthority = try Bool(derEncoded: part)
            }
            let pathLength = try parts.popFirst().map { try Int(derEncoded: $0) }
            guard parts.isEmpty, pathLength.map({ $0 >= 0 }) ?? true else {
                throw Malformed(description: "pathLenConstraint is negative")
            }
            return (isAuthority, pathLength)
        } catch {
            throw Malformed(description: "basicConstraints: \(error)")
        }
    }

    /// Whether the key may sign certificates: keyUsage is absent or has keyCertSign (RFC 5280
    /// section 4.2.1.3).
    func maySignCertificates() throws(Malformed) -> Bool {
        guard let found = find(.CertificateExtension.keyUsage) else { return true }
        do {
            let bits = try ASN1BitString(derEncoded: try DER.parse(found.value))
            return bits.bytes.first.map { $0 & 0x04 != 0 } ?? false
        } catch {
            throw Malformed(description: "keyUsage: \(error)")
        }
    }

    /// The purposes of extKeyUsage (RFC 5280 section 4.2.1.12), or nil if the extension is absent.
    func purposes() throws(Malformed) -> [ASN1ObjectIdentifier]? {
        guard let found = find(.CertificateExtension.extendedKeyUsage) else { return nil }
        do {
            return try Self.children(try DER.parse(found.value), .sequence, 1...16).map {
                try ASN1ObjectIdentifier(derEncoded: $0)
            }
        } catch {
            throw Malformed(description: "extKeyUsage: \(error)")
        }
    }

    /// The attributes of the directoryNames in subjectAltName (RFC 5280 section 4.2.1.6), in their
    /// order.
    func directoryAttributes() throws(Malformed) -> [(id: ASN1ObjectIdentifier, value: String)] {
        guard let found = find(.CertificateExtension.subjectAlternativeName) else { return [] }
        do {
            var attributes: [(id: ASN1ObjectIdentifier, value: String)] = []
            let names = try Self.children(try DER.parse(found.value), .sequence, 1...16)
            for name in names where name.identifier == Self.tag(4) {
                let sets = try Self.children(
                    try Self.children(name, Self.tag(4), 1...1)[0], .sequence, 1...16)
                for set in sets {
                    for attribute in try Self.children(set, .set, 1...16) {
                        let parts = try Self.children(attribute, .sequence, 2...2)
                        let id = try ASN1ObjectIdentifier(derEncoded: parts[0])
                        guard let value = try Self.text(parts[1]) else { continue }
                        attributes.append((id, value))
                    }
                }
            }
            return attributes
        } catch {
            throw Malformed(description: "subjectAltName: \(error)")
        }
    }
}

extension HardwareCertificate {
    static func tag(_ number: UInt) -> ASN1Identifier {
        ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
    }

    /// The nodes in a constructed node.
    static func children(
        _ node: ASN1Node, _ identifier: ASN1Identifier, _ count: ClosedRange<Int>
    ) throws(Malformed) -> [ASN1Node] {
        guard node.identifier == identifier, case .constructed(let nodes) = node.content else {
            throw Malformed(
                description: "a field has the type \(node.identifier) instead of \(identifier)")
        }
        let children = Array(nodes)
        guard count.contains(children.count) else {
            throw Malformed(description: "a field has \(children.count) parts")
        }
        return children
    }

    /// The bytes in a primitive node.
    static func content(_ node: ASN1Node, _ identifier: ASN1Identifier) throws(Malformed)
        -> ArraySlice<UInt8>
    {
        guard node.identifier == identifier, case .primitive(let bytes) = node.content else {
            throw Malformed(
                description: "a field has the type \(node.identifier) instead of \(identifier)")
        }
        return bytes
    }

    private static func name(_ node: ASN1Node) throws(Malformed) -> ArraySlice<UInt8> {
        guard node.identifier == .sequence else {
            throw Malformed(description: "a name is not a SEQUENCE")
        }
        return node.encodedBytes
    }

    /// The text of a UTF8String, PrintableString, IA5String, TeletexString or BMPString of at most
    /// 64 printable ASCII characters, or nil.
    static func text(_ node: ASN1Node) throws(Malformed) -> String? {
        let identifiers: [ASN1Identifier] = [
            .utf8String, .printableString, .ia5String, .teletexString, .bmpString,
        ]
        guard identifiers.contains(node.identifier) else { return nil }
        var bytes = Array(try content(node, node.identifier))
        if node.identifier == .bmpString {
            let pairs = stride(from: 0, to: bytes.count - 1, by: 2).map {
                bytes[$0] == 0 ? bytes[$0 + 1] : 0
            }
            guard pairs.count * 2 == bytes.count else { return nil }
            bytes = pairs
        }
        guard bytes.count <= 64, bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            return nil
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A UTCTime or GeneralizedTime in seconds since 1970.
    private static func seconds(_ node: ASN1Node) throws -> Int64 {
        if node.identifier == .utcTime {
            let time = try UTCTime(derEncoded: node)
            return seconds(time.year, time.month, time.day, time.hours, time.minutes, time.seconds)
        }
        let time = try GeneralizedTime(derEncoded: node)
        return seconds(time.year, time.month, time.day, time.hours, time.minutes, time.seconds)
    }

    private static func seconds(
        _ year: Int, _ month: Int, _ day: Int, _ hour: Int, _ minute: Int, _ second: Int
    )
        -> Int64
    {
        // Days since 1970 in the proleptic Gregorian calendar. Years begin in March, so that leap
        // days are last.
        let shifted = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        return Int64(((days * 24 + hour) * 60 + minute) * 60 + second)
    }

    /// Whether the bytes have at most ``maximumNodes`` nodes. Counts headers only and allocates
    /// nothing.
    static func hasFewNodes(_ bytes: [UInt8]) -> Bool {
        var position = 0
        for _ in 0...maximumNodes {
            guard position + 1 < bytes.count else { return true }
            let isConstructed = bytes[position] & 0x20 != 0
            var length = Int(bytes[position + 1])
            position += 2
            if length >= 0x80 {
                let count = length & 0x7F
                // The parser refuses indefinite and longer lengths.
                guard (1...3).contains(count), position + count <= bytes.count else { return true }
                length = bytes[position..<(position + count)].reduce(0) { $0 << 8 | Int($1) }
                position += count
            }
            if !isConstructed { position += length }
        }
        return false
    }
}

extension ASN1ObjectIdentifier {
    /// Extensions of RFC 5280 section 4.2.1.
    enum CertificateExtension {
        static let keyUsage: ASN1ObjectIdentifier = [2, 5, 29, 15]
        static let subjectAlternativeName: ASN1ObjectIdentifier = [2, 5, 29, 17]
        static let basicConstraints: ASN1ObjectIdentifier = [2, 5, 29, 19]
        static let extendedKeyUsage: ASN1ObjectIdentifier = [2, 5, 29, 37]
    }
}
