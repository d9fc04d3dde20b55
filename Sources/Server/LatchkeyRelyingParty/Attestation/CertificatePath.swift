internal import SwiftASN1

/// A path from a certificate to a trust anchor.
struct CertificatePath: Sendable {
    /// The reason why there is no path. Each has its own sentence, because each has another remedy.
    struct Failure: Error, Hashable, Sendable {
        /// In ascending order of what they tell: if a search meets several at the same distance
        /// from the first certificate, the last one is reported.
        enum Cause: Int, Comparable, Sendable {
            /// No certificate has the name of an issuer, or none with the name has its key.
            case unknownIssuer
            /// A certificate may not issue the one below it.
            case notAnIssuer
            /// The limit of signature checks was reached.
            case tooManySignatures
            /// A certificate has an algorithm or an extension that is not supported.
            case unsupported
            /// The path has more certificates than ``CertificatePath/maximumDepth``.
            case tooLong
            /// A path ends at an anchor, and a certificate in it is not valid now.
            case expired

            static func < (left: Cause, right: Cause) -> Bool { left.rawValue < right.rawValue }
        }

        let cause: Cause
        /// The cause as a sentence, with the name of the certificate.
        let detail: String

        /// The reason for an endorsement certificate or a certificate of a token.
        var reason: AttestationReason {
            switch cause {
            case .unknownIssuer, .notAnIssuer: .untrustedEndorsement
            case .tooLong, .tooManySignatures: .chainTooLong
            case .unsupported: .unsupportedCertificate
            case .expired: .certificateExpired
            }
        }
    }

    /// The maximum number of certificates above the first one, the root included. Intel's TPMs have
    /// six.
    static let maximumDepth = 8
    /// The maximum number of signatures that one request verifies; one with P-521 counts as two. A
    /// client may send certificates with equal names. With P-384, this takes about 10 ms.
    static let maximumSignatures = 16

    /// The certificates from the first one to the root.
    let certificates: [HardwareCertificate]
    /// Whether the root is a simulator's.
    let isSimulated: Bool

    /// Finds a path that is valid now.
    ///
    /// At each step the issuer's name equals the subject's name by raw bytes, the signature
    /// verifies, and the issuer is a CA that may sign certificates and respects pathLenConstraint.
    /// All critical extensions are processed, see ``HardwareCertificate/unsupportedExtension``.
    ///
    /// - Parameters:
    ///   - first: The certificate to verify.
    ///   - anchors: The roots and intermediates for the certificate's claim.
    ///   - simulated: The roots and intermediates of simulators.
    ///   - others: The sender's certificates, which may complete a path. At most 8 are used.
    ///   - time: Seconds since 1970.
    ///   - depth: The number of certificates below the first one.
    ///   - signaturesLeft: The number of signatures that may be verified. The search subtracts its
    ///     own.
    init(
        from first: HardwareCertificate, to anchors: AttestationAnchors.Group,
        simulated: AttestationAnchors.Group,
        others: [HardwareCertificate], at time: Int64, depth: Int = 0,
        signaturesLeft: inout Int
    ) throws(Failure) {
        if let flaw = first.unsupportedExtension {
            throw Failure(cause: .unsupported, detail: "\(first.subjectText): \(flaw)")
        }
        var search = Search(
            simulatedRoots: simulated.roots, roots: anchors.roots,
            others: anchors.intermediates + simulated.intermediates + others.prefix(8), time: time,
            depth: depth, signaturesLeft: signaturesLeft)
        let path = search.path(from: [first])
        signaturesLeft = search.signaturesLeft
        guard let path else {
            throw search.failure?.failure
                ?? Failure(cause: .unknownIssuer, detail: "there is no trust anchor")
        }
        self = path
    }

    /// The same for the only certificate of a request.
    init(
        from first: HardwareCertificate, to anchors: AttestationAnchors.Group,
        simulated: AttestationAnchors.Group,
        others: [HardwareCertificate], at time: Int64, depth: Int = 0
    ) throws(Failure) {
        var signatures = Self.maximumSignatures
        try self.init(
            from: first, to: anchors, simulated: simulated, others: others, at: time, depth: depth,
            signaturesLeft: &signatures)
    }

    private init(_ certificates: [HardwareCertificate], isSimulated: Bool) {
        self.certificates = certificates
        self.isSimulated = isSimulated
    }

    private struct Search {
        let simulatedRoots: [HardwareCertificate]
        let roots: [HardwareCertificate]
        let others: [HardwareCertificate]
        let time: Int64
        let depth: Int
        var signaturesLeft: Int
        /// The failure at the greatest distance from the first certificate.
        var failure: (failure: Failure, distance: Int)?

        mutating func path(from path: [HardwareCertificate]) -> CertificatePath? {
            guard let last = path.last else { return nil }
            if let algorithm = CertificateKey.unsupportedSignature(of: last) {
                note(
                    .unsupported, path,
                    "\(last.subjectText) is signed with \(algorithm), which is not supported")
                return nil
            }
            let named = others.filter { $0.subject == last.issuer && !path.contains($0) }
            let anchors: [(root: HardwareCertificate, isSimulated: Bool)] =
                simulatedRoots.filter { $0.subject == last.issuer }.map { ($0, true) }
                + roots.filter { $0.subject == last.issuer }.map { ($0, false) }
            guard !named.isEmpty || !anchors.isEmpty else {
                note(
                    .unknownIssuer, path,
                    "no certificate is known for \(last.issuerText), which issued \(last.subjectText)"
                )
                return nil
            }
            guard depth + path.count <= CertificatePath.maximumDepth else {
                note(
                    .tooLong, path,
                    "there are more than \(CertificatePath.maximumDepth) certificates above the first one"
                )
                return nil
            }
            for (root, isSimulated) in anchors where isIssuer(root, of: last, path) {
                if let old = (path + [root]).first(where: { !$0.isValid(at: time) }) {
                    note(.expired, path, "\(old.subjectText) \(old.validityText(at: time))")
                } else {
                    return CertificatePath(path + [root], isSimulated: isSimulated)
                }
            }
            for issuer in named where isIssuer(issuer, of: last, path) {
                if let found = self.path(from: path + [issuer]) { return found }
            }
            return nil
        }

        private mutating func isIssuer(
            _ issuer: HardwareCertificate, of certificate: HardwareCertificate,
            _ path: [HardwareCertificate]
        ) -> Bool {
            let key: CertificateKey
            switch issuer.asIssuer {
            case .flawed(let flaw, let isUnsupported):
                note(
                    isUnsupported ? .unsupported : .notAnIssuer, path,
                    "\(issuer.subjectText) cannot issue \(certificate.subjectText): \(flaw)")
                return false
            case .usable(_, let pathLength?) where depth + path.count - 1 > pathLength:
                note(
                    .notAnIssuer, path,
                    "more certificates are below \(issuer.subjectText) than its pathLenConstraint permits"
                )
                return false
            case .usable(let usable, _): key = usable
            }
            guard signaturesLeft >= key.cost else {
                note(
                    .tooManySignatures, path,
                    "the search needs more than \(CertificatePath.maximumSignatures) signature checks"
                )
                return false
            }
            signaturesLeft -= key.cost
            guard key.isIssuer(of: certificate) else {
                note(
                    .unknownIssuer, path,
                    "\(certificate.subjectText) is not signed with the key of \(issuer.subjectText)"
                )
                return false
            }
            return true
        }

        private mutating func note(
            _ cause: Failure.Cause, _ path: [HardwareCertificate], _ detail: String
        ) {
            // An expired path is complete; all others are not.
            let distance = cause == .expired ? Int.max : path.count
            if let failure, (failure.distance, failure.failure.cause) >= (distance, cause) {
                return
            }
            failure = (Failure(cause: cause, detail: detail), distance)
        }
    }
}
