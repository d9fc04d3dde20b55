internal import FoundationEssentials
internal import SwiftASN1

/// The checks of a certificate that do not depend on other certificates (RFC 5280 section 6.1).
extension HardwareCertificate {
    /// The reason why no path may contain the certificate: an extension that is critical and not
    /// processed, or that requires a policy. nil if there is none.
    ///
    /// Any certificate policy is acceptable (RFC 5280 section 6.1.1: user-initial-policy-set is
    /// any-policy, initial-explicit-policy is false). So certificatePolicies, policyMappings and
    /// inhibitAnyPolicy change no result, unless a certificate requires an explicit policy, which
    /// is not supported.
    var unsupportedExtension: String? {
        if let unknown = extensions.first(where: {
            $0.isCritical && !Self.processedExtensions.contains($0.id)
        }) {
            let name = Self.names[unknown.id].map { " (\($0))" } ?? ""
            return "the critical extension \(unknown.id)\(name) is not supported"
        }
        do throws(Malformed) {
            if try requiresExplicitPolicy() { return "it requires a certificate policy" }
            return try mapsAnyPolicy() ? "it maps the policy anyPolicy" : nil
        } catch {
            return error.description
        }
    }

    /// Whether the certificate can be an issuer in a path.
    enum IssuerCheck {
        /// It can. The path length is that of basicConstraints.
        case usable(CertificateKey, pathLength: Int?)
        /// It cannot, because of something that is not supported, or for another reason.
        case flawed(String, isUnsupported: Bool)
    }

    var asIssuer: IssuerCheck {
        let pathLength: Int?
        do throws(Malformed) {
            guard let constraints = try basicConstraints(), constraints.isAuthority else {
                return .flawed("it is not a CA certificate", isUnsupported: false)
            }
            guard try maySignCertificates() else {
                return .flawed(
                    "its keyUsage does not permit it to sign certificates", isUnsupported: false)
            }
            pathLength = constraints.pathLength
        } catch {
            return .flawed(error.description, isUnsupported: false)
        }
        guard let key = CertificateKey(publicKeyInfo: publicKeyInfo) else {
            return .flawed(
                "its key is neither on P-256, P-384 or P-521 nor RSA with 2048 to 4096 bits",
                isUnsupported: true)
        }
        if let text = unsupportedExtension { return .flawed(text, isUnsupported: true) }
        return .usable(key, pathLength: pathLength)
    }

    private static let processedExtensions: [ASN1ObjectIdentifier] = [
        .CertificateExtension.basicConstraints, .CertificateExtension.keyUsage,
        .CertificateExtension.subjectAlternativeName, .CertificateExtension.extendedKeyUsage,
        .CertificateExtension.certificatePolicies, .CertificateExtension.policyMappings,
        .CertificateExtension.policyConstraints, .CertificateExtension.inhibitAnyPolicy,
    ]

    /// Names for messages.
    private static let names: [ASN1ObjectIdentifier: String] = [
        [2, 5, 29, 30]: "nameConstraints", [2, 5, 29, 31]: "cRLDistributionPoints",
        [2, 5, 29, 35]: "authorityKeyIdentifier", [2, 5, 29, 14]: "subjectKeyIdentifier",
        [1, 3, 6, 1, 5, 5, 7, 1, 1]: "authorityInfoAccess",
    ]

    /// Whether policyConstraints (RFC 5280 section 4.2.1.11) has requireExplicitPolicy.
    private func requiresExplicitPolicy() throws(Malformed) -> Bool {
        try parts(of: .CertificateExtension.policyConstraints, "policyConstraints", 0...2)
            .contains { $0.identifier == Self.tag(0) }
    }

    /// Whether policyMappings (RFC 5280 section 4.2.1.5) names anyPolicy, which is forbidden
    /// (section 6.1.4, step a).
    private func mapsAnyPolicy() throws(Malformed) -> Bool {
        let anyPolicy: ASN1ObjectIdentifier = [2, 5, 29, 32, 0]
        let mappings = try parts(
            of: .CertificateExtension.policyMappings, "policyMappings", 1...64)
        do {
            return try mappings.contains {
                try Self.children($0, .sequence, 2...2).contains {
                    try ASN1ObjectIdentifier(derEncoded: $0) == anyPolicy
                }
            }
        } catch {
            throw Malformed(description: "policyMappings: \(error)")
        }
    }

    /// The parts of an extension that is a SEQUENCE; none if the extension is absent.
    private func parts(
        of id: ASN1ObjectIdentifier, _ name: String, _ count: ClosedRange<Int>
    ) throws(Malformed) -> [ASN1Node] {
        guard let found = find(id) else { return [] }
        do {
            return try Self.children(try DER.parse(found.value), .sequence, count)
        } catch {
            throw Malformed(description: "\(name): \(error)")
        }
    }

    /// The subject for messages: the last attribute of at most 64 printable ASCII characters, or
    /// `a certificate without a name`.
    var subjectText: String {
        Self.text(of: subject).map { "‘\($0)’" } ?? "a certificate without a name"
    }

    /// The issuer for messages, likewise.
    var issuerText: String {
        Self.text(of: issuer).map { "‘\($0)’" } ?? "an issuer without a name"
    }

    private static func text(of name: ArraySlice<UInt8>) -> String? {
        guard let root = try? DER.parse(name), case .constructed(let sets) = root.content else {
            return nil
        }
        var result: String?
        for set in sets {
            guard case .constructed(let attributes) = set.content else { continue }
            for attribute in attributes {
                guard let parts = try? children(attribute, .sequence, 2...2),
                    let value = try? text(parts[1])
                else { continue }
                result = value
            }
        }
        return result
    }

    /// The end of the validity, or its begin if that is later than the time, for messages.
    func validityText(at time: Int64) -> String {
        func date(_ seconds: Int64) -> String {
            Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        }
        return time < validity.lowerBound
            ? "is valid from \(date(validity.lowerBound))"
            : "was valid until \(date(validity.upperBound))"
    }
}

extension ASN1ObjectIdentifier.CertificateExtension {
    static let certificatePolicies: ASN1ObjectIdentifier = [2, 5, 29, 32]
    static let policyMappings: ASN1ObjectIdentifier = [2, 5, 29, 33]
    static let policyConstraints: ASN1ObjectIdentifier = [2, 5, 29, 36]
    static let inhibitAnyPolicy: ASN1ObjectIdentifier = [2, 5, 29, 54]
}
