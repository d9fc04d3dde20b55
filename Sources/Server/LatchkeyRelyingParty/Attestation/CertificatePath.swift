internal import SwiftASN1

/// A path from a certificate to a trust anchor.
struct CertificatePath: Sendable {
    /// The reason why there is no path.
    enum Failure: Error, Sendable {
        /// No path ends at an anchor.
        case untrusted(String)
        /// A path ends at an anchor, and a certificate in it is not valid now.
        case expired
    }

    /// The maximum number of certificates above the first one, the root included.
    static let maximumDepth = 4
    /// The maximum number of signatures that one search verifies. A client may send certificates
    /// with equal names. With P-384, this takes about 8 ms.
    static let maximumSignatures = 12

    /// The certificates from the first one to the root.
    let certificates: [HardwareCertificate]
    /// Whether the root is a simulator's.
    let isSimulated: Bool

    /// Finds a path that is valid now.
    ///
    /// At each step the issuer's name equals the subject's name by raw bytes, the signature
    /// verifies, and the issuer is a CA that may sign certificates and respects pathLenConstraint.
    /// All critical extensions are known.
    ///
    /// - Parameters:
    ///   - first: The certificate to verify.
    ///   - anchors: The roots and intermediates for the certificate's claim.
    ///   - simulated: The roots and intermediates of simulators.
    ///   - others: The sender's certificates, which may complete a path. At most 8 are used.
    ///   - time: Seconds since 1970.
    ///   - depth: The number of certificates below the first one.
    init(
        from first: HardwareCertificate, to anchors: AttestationAnchors.Group,
        simulated: AttestationAnchors.Group,
        others: [HardwareCertificate], at time: Int64, depth: Int = 0
    ) throws(Failure) {
        guard first.hasKnownCriticalExtensionsOnly else {
            throw .untrusted("a critical extension is not known")
        }
        var search = Search(
            simulatedRoots: simulated.roots, roots: anchors.roots,
            others: anchors.intermediates + simulated.intermediates + others.prefix(8), time: time,
            depth: depth)
        if let path = search.path(from: [first], isValid: first.isValid(at: time)) {
            self = path
        } else if search.foundExpired {
            throw .expired
        } else {
            throw .untrusted("no path leads to a trust anchor")
        }
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
        /// Whether a path to an anchor exists that is not valid now.
        var foundExpired = false
        private var signaturesLeft = CertificatePath.maximumSignatures

        init(
            simulatedRoots: [HardwareCertificate], roots: [HardwareCertificate],
            others: [HardwareCertificate],
            time: Int64,
            depth: Int
        ) {
            self.simulatedRoots = simulatedRoots
            self.roots = roots
            self.others = others
            self.time = time
            self.depth = depth
        }

        mutating func path(from path: [HardwareCertificate], isValid: Bool) -> CertificatePath? {
            guard let last = path.last, depth + path.count <= CertificatePath.maximumDepth else {
                return nil
            }
            for (set, isSimulated) in [(simulatedRoots, true), (roots, false)] {
                for root in set where isIssuer(root, of: last, below: depth + path.count - 1) {
                    if isValid && root.isValid(at: time) {
                        return CertificatePath(path + [root], isSimulated: isSimulated)
                    }
                    foundExpired = true
                }
            }
            for issuer in others
            where !path.contains(issuer)
                && isIssuer(issuer, of: last, below: depth + path.count - 1)
            {
                let isValid = isValid && issuer.isValid(at: time)
                if let found = self.path(from: path + [issuer], isValid: isValid) { return found }
            }
            return nil
        }

        private mutating func isIssuer(
            _ issuer: HardwareCertificate, of certificate: HardwareCertificate, below: Int
        ) -> Bool {
            guard issuer.subject == certificate.issuer, issuer.hasKnownCriticalExtensionsOnly,
                let constraints = try? issuer.basicConstraints(), constraints.isAuthority,
                below <= constraints.pathLength ?? .max,
                (try? issuer.maySignCertificates()) == true,
                signaturesLeft > 0, let key = CertificateKey(publicKeyInfo: issuer.publicKeyInfo)
            else { return false }
            signaturesLeft -= 1
            return key.isIssuer(of: certificate)
        }
    }
}
