internal import FoundationEssentials
internal import SwiftASN1
internal import TPM2

/// The parts of an X.509 certificate that the keystore reads: the key and the dates. It trusts
/// neither.
///
/// Certificates of endorsement keys have many defects in the field, so other parts are not read.
struct CertificateFacts: Hashable, Sendable {
    /// The public key.
    enum Key: Hashable, Sendable {
        /// `04 ‖ x ‖ y`, 65 or 97 bytes.
        case point([UInt8])
        /// The modulus of an RSA key without leading zeros, and its exponent.
        case modulus([UInt8], exponent: UInt32)
    }

    let key: Key
    let validFrom: Date
    let expiresAt: Date

    /// The maximum size of a certificate in bytes.
    static let maximumBytes = 4096

    /// - Throws: For bytes that are not a certificate with an RSA key or a key on P-256 or P-384.
    init(_ der: some Collection<UInt8>) throws {
        guard der.count <= Self.maximumBytes else {
            throw ASN1Error.invalidASN1Object(reason: "a certificate has \(der.count) bytes")
        }
        let fields = try Self.children(of: Self.children(of: try DER.parse(Array(der)))[at: 0])
        // Before version 3 there is no version: [0] EXPLICIT INTEGER.
        let first =
            fields.first?.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
            ? 1 : 0
        let validity = try Self.children(of: fields[at: first + 3])
        validFrom = try Self.time(validity[at: 0])
        expiresAt = try Self.time(validity[at: 1])
        let info = try Self.children(of: fields[at: first + 5])
        let algorithm = try Self.children(of: info[at: 0])
        let bits = try ASN1BitString(derEncoded: info[at: 1])
        switch try ASN1ObjectIdentifier(derEncoded: algorithm[at: 0]) {
        case [1, 2, 840, 10045, 2, 1]:
            let point = Array(bits.bytes)
            guard point.first == 4, point.count == 65 || point.count == 97 else {
                throw ASN1Error.invalidASN1Object(reason: "the point has another length")
            }
            key = .point(point)
        // rsaEncryption and id-RSAES-OAEP.
        case [1, 2, 840, 113549, 1, 1, 1], [1, 2, 840, 113549, 1, 1, 7]:
            let parts = try Self.children(of: try DER.parse(Array(bits.bytes)))
            let modulus = try ArraySlice<UInt8>(derEncoded: parts[at: 0])
            key = .modulus(
                Array(modulus.drop { $0 == 0 }), exponent: try UInt32(derEncoded: parts[at: 1]))
        default: throw ASN1Error.invalidASN1Object(reason: "the key is of another kind")
        }
    }

    /// The certificates that are concatenated in `bytes`, with padding after them: `30 82` and two
    /// bytes of length.
    static func split(_ bytes: [UInt8]) -> [[UInt8]] {
        var rest = bytes[...]
        var certificates: [[UInt8]] = []
        while rest.starts(with: [0x30, 0x82]), rest.count > 4 {
            let start = rest.startIndex
            let count = 4 + Int(rest[start + 2]) << 8 + Int(rest[start + 3])
            guard count <= rest.count else { break }
            certificates.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return certificates
    }

    private static func children(of node: ASN1Node) throws -> [ASN1Node] {
        guard case .constructed(let nodes) = node.content else {
            throw ASN1Error.invalidASN1Object(reason: "a part of a certificate is not constructed")
        }
        return Array(nodes)
    }

    private static func time(_ node: ASN1Node) throws -> Date {
        if node.identifier == .utcTime {
            let time = try UTCTime(derEncoded: node)
            return date(time.year, time.month, time.day, time.hours, time.minutes, time.seconds)
        }
        let time = try GeneralizedTime(derEncoded: node)
        return date(time.year, time.month, time.day, time.hours, time.minutes, time.seconds)
    }

    /// A time in UTC in the Gregorian calendar (H. Hinnant's algorithm for days of a civil date).
    private static func date(
        _ year: Int, _ month: Int, _ day: Int, _ hour: Int, _ minute: Int, _ second: Int
    ) -> Date {
        // The year begins in March, so that the leap day is its last one.
        let (year, month) = month > 2 ? (year, month - 3) : (year - 1, month + 9)
        let era = year / 400
        let yearOfEra = year - era * 400
        let dayOfEra =
            yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + (153 * month + 2) / 5 + day - 1
        let days = era * 146_097 + dayOfEra - 719_468
        return Date(
            timeIntervalSince1970: Double(days * 86_400 + hour * 3600 + minute * 60 + second))
    }
}

extension CertificateFacts {
    /// Whether the certificate is for the key with this public area.
    func isFor(_ publicArea: PublicArea) -> Bool {
        switch (key, publicArea.detail) {
        case (.point(let point), .ecc(let parameters, let own)):
            let bytes = (point.count - 1) / 2
            let curve: ECCCurve = bytes == 32 ? .nistP256 : .nistP384
            return parameters.curve == curve
                && point.dropFirst().prefix(bytes).drop { $0 == 0 } == own.x.drop { $0 == 0 }
                && point.suffix(bytes).drop { $0 == 0 } == own.y.drop { $0 == 0 }
        case (.modulus(let modulus, let exponent), .rsa(let parameters, let own)):
            return modulus == Array(own.drop { $0 == 0 })
                && exponent == (parameters.exponent == 0 ? 65537 : parameters.exponent)
        default: return false
        }
    }
}

extension [ASN1Node] {
    /// The element at an index.
    fileprivate subscript(at index: Int) -> ASN1Node {
        get throws {
            guard indices.contains(index) else {
                throw ASN1Error.invalidASN1Object(reason: "a part is missing")
            }
            return self[index]
        }
    }
}
