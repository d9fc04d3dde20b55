public import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// The certificates that an operator trusts to vouch for hardware. No anchors are compiled in.
///
/// A chain ends at a root by the root's name, as raw bytes, and its key. The root's own signature
/// is never checked, so that roots with SHA-1 signatures and with unsorted names can be used.
public struct AttestationAnchors: Sendable {
    /// The certificates for one claim.
    public struct Group: Sendable {
        /// The certificates at which a chain may end.
        let roots: [HardwareCertificate]
        /// The certificates that may complete a chain to a root. Their signatures are checked.
        let intermediates: [HardwareCertificate]
        /// The files and certificates of the directory that cannot be used, each with the reason.
        public let skipped: [AttestationAnchorError]

        /// The number of certificates at which a chain may end.
        public var rootCount: Int { roots.count }
        /// The number of certificates that may complete a chain.
        public var intermediateCount: Int { intermediates.count }
        /// Whether a chain can end here.
        package var hasRoots: Bool { !roots.isEmpty }

        /// No certificates: nothing is trusted.
        public static let none = Group(roots: [HardwareCertificate](), intermediates: [])

        init(
            roots: [HardwareCertificate], intermediates: [HardwareCertificate],
            skipped: [AttestationAnchorError] = []
        ) {
            self.roots = roots
            self.intermediates = intermediates
            self.skipped = skipped
        }
    }

    /// Roots of TPM manufacturers, for endorsement certificates.
    package let tpm: Group
    /// Roots of token manufacturers, for PIV attestation certificates.
    package let piv: Group
    /// Issuers of certificates for attestation keys in hardware: this server's
    /// ``EndorsementAuthority`` and others.
    package let aik: Group
    /// Roots of simulators, for certificates of all kinds. A verdict under one of them is
    /// simulated.
    package let simulated: Group
    /// The unknown entries of the directory.
    private var others: [AttestationAnchorError] = []

    /// Creates anchors from one set for each claim.
    ///
    /// - Parameters:
    ///   - tpm: Roots of TPM manufacturers, for endorsement certificates.
    ///   - piv: Roots of token manufacturers, for PIV attestation certificates (YubiKey).
    ///   - aik: Issuers of certificates for attestation keys in hardware.
    ///   - simulated: Roots of simulators, for certificates of all three kinds. A root in this set
    ///     and in another one counts as simulated.
    public init(
        tpm: Group = .none, piv: Group = .none, aik: Group = .none, simulated: Group = .none
    ) {
        self.tpm = tpm
        self.piv = piv
        self.aik = aik
        self.simulated = simulated
    }

    /// Reads the directories `tpm`, `piv`, `aik` and `simulated` in a directory, each as
    /// ``Group/init(directory:)`` does.
    ///
    /// - Parameter directory: A path. A missing subdirectory is an empty set. Any other entry is in
    ///   ``skipped``.
    /// - Throws: ``AttestationAnchorError`` if a directory cannot be read, or if something was
    ///   skipped and no root is left.
    public init(directory: String) throws(AttestationAnchorError) {
        let names = ["aik", "piv", "simulated", "tpm"]
        let entries = try AttestationAnchorError.entries(of: directory)
        func set(_ name: String) throws(AttestationAnchorError) -> Group {
            entries.contains(name) ? try Group(directory: directory + "/" + name) : .none
        }
        self.init(
            tpm: try set("tpm"), piv: try set("piv"), aik: try set("aik"),
            simulated: try set("simulated"))
        others = entries.filter { !names.contains($0) }.map {
            AttestationAnchorError(
                path: directory + "/" + $0, reason: "it is not one of \(names)")
        }
        let sets = [tpm, piv, aik, simulated]
        if let first = others.first, !sets.contains(where: \.hasRoots) { throw first }
    }

    /// The files, directories and certificates that cannot be used, each with the reason.
    public var skipped: [AttestationAnchorError] {
        others + tpm.skipped + piv.skipped + aik.skipped + simulated.skipped
    }
}

extension AttestationAnchors.Group {
    /// Creates a set from certificates.
    ///
    /// - Parameters:
    ///   - roots: Certificates in DER, at most 4096 bytes each. Each must be a CA certificate.
    ///   - intermediates: Certificates in DER that may complete a chain to a root.
    /// - Throws: ``AttestationAnchorError`` for a certificate that cannot be read or is not a CA
    ///   certificate.
    public init(roots: [Data], intermediates: [Data] = []) throws(AttestationAnchorError) {
        func read(_ list: [Data], _ name: String) throws(AttestationAnchorError)
            -> [HardwareCertificate]
        {
            var certificates: [HardwareCertificate] = []
            for (index, der) in list.enumerated() {
                certificates.append(
                    try AttestationAnchorError.certificate(
                        der, path: "\(name)[\(index)]", isRoot: name == "roots"))
            }
            return certificates
        }
        self.init(
            roots: try read(roots, "roots"), intermediates: try read(intermediates, "intermediates")
        )
    }

    /// Joins sets.
    package init(_ groups: [AttestationAnchors.Group]) {
        self.init(
            roots: groups.flatMap(\.roots), intermediates: groups.flatMap(\.intermediates),
            skipped: groups.flatMap(\.skipped))
    }

    /// Reads the certificates in the directories `roots` and `intermediates` of a directory.
    ///
    /// Skips each file, and each certificate in a file, that can be part of no chain, and adds it
    /// with the reason to ``skipped``. Report these: a chain under them is refused.
    ///
    /// - Parameter directory: A path. Its files end in `.pem`, `.crt`, `.cer` or `.der` and contain
    ///   any number of certificates in DER or PEM (RFC 7468). A missing subdirectory is empty.
    /// - Throws: ``AttestationAnchorError`` if a directory cannot be read, or if something was
    ///   skipped and no root is left.
    public init(directory: String) throws(AttestationAnchorError) {
        let entries = try AttestationAnchorError.entries(of: directory)
        var skipped = entries.filter { $0 != "roots" && $0 != "intermediates" }.map {
            AttestationAnchorError(
                path: directory + "/" + $0, reason: "it is neither roots nor intermediates")
        }
        func read(_ name: String) throws(AttestationAnchorError) -> [HardwareCertificate] {
            guard entries.contains(name) else { return [] }
            let folder = directory + "/" + name
            var certificates: [HardwareCertificate] = []
            for file in try AttestationAnchorError.entries(of: folder) {
                let path = folder + "/" + file
                do throws(AttestationAnchorError) {
                    let content = try AttestationAnchorError.certificates(
                        inFile: path, areRoots: name == "roots")
                    certificates += content.usable
                    skipped += content.skipped
                } catch {
                    skipped.append(error)
                }
            }
            return certificates
        }
        let roots = try read("roots")
        let intermediates = try read("intermediates")
        if let first = skipped.first, roots.isEmpty { throw first }
        self.init(roots: roots, intermediates: intermediates, skipped: skipped)
    }
}

/// The reason why a trust anchor cannot be used.
public struct AttestationAnchorError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file or directory.
    public let path: String
    /// The cause.
    public let reason: String

    public var description: String { "Could not use the trust anchor \(path): \(reason)." }

    /// The maximum size of a file in bytes.
    private static let maximumFileBytes = 1 << 20
    private static let suffixes = [".pem", ".crt", ".cer", ".der"]

    static func entries(of directory: String) throws(AttestationAnchorError) -> [String] {
        let entries: [String]
        do {
            entries = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        } catch {
            throw AttestationAnchorError(
                path: directory,
                reason: "the directory cannot be listed: \(cause(directory, error))")
        }
        try checkTrust(directory)
        return entries
    }

    /// Refuses a file or directory that other users can change: they could add a certificate.
    private static func checkTrust(_ path: String) throws(AttestationAnchorError) {
        do {
            try TrustedFile.check(path)
        } catch {
            throw AttestationAnchorError(path: path, reason: error.reason)
        }
    }

    /// The system's message for a directory that cannot be opened.
    ///
    /// - Parameter error: The error to describe if it can be opened.
    private static func cause(_ path: String, _ error: any Error) -> String {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { return SystemError.last.description }
        close(descriptor)
        return "\(error)"
    }

    /// The certificates of a file that can be part of a chain, and the others.
    static func certificates(inFile path: String, areRoots: Bool) throws(AttestationAnchorError)
        -> (usable: [HardwareCertificate], skipped: [AttestationAnchorError])
    {
        guard suffixes.contains(where: path.lowercased().hasSuffix) else {
            throw AttestationAnchorError(
                path: path, reason: "its name does not end in .pem, .crt, .cer or .der")
        }
        let bytes: Data
        do {
            bytes = try TrustedFile.contents(of: path)
        } catch {
            throw AttestationAnchorError(path: path, reason: error.reason)
        }
        guard bytes.count <= maximumFileBytes else {
            throw AttestationAnchorError(path: path, reason: "the file has \(bytes.count) bytes")
        }
        let parts = CertificateFile.parts(of: bytes)
        guard !parts.isEmpty else {
            throw AttestationAnchorError(path: path, reason: "the file contains no certificate")
        }
        var (usable, skipped): ([HardwareCertificate], [AttestationAnchorError]) = ([], [])
        for (index, part) in parts.enumerated() {
            let path = parts.count == 1 ? path : "\(path) (part \(index + 1))"
            do throws(AttestationAnchorError) {
                guard CertificateFile.labels.contains(part.label) else {
                    throw AttestationAnchorError(path: path, reason: "it is a \(part.label)")
                }
                guard let der = part.der else {
                    throw AttestationAnchorError(
                        path: path, reason: "its Base64 is malformed, or its end is missing")
                }
                usable.append(try certificate(der, path: path, isRoot: areRoots))
            } catch {
                skipped.append(error)
            }
        }
        return (usable, skipped)
    }

    /// Reads a certificate that can be part of a chain. The signature of a root is not checked, so
    /// its algorithm may be an unsupported one.
    static func certificate(_ der: Data, path: String, isRoot: Bool) throws(AttestationAnchorError)
        -> HardwareCertificate
    {
        let certificate: HardwareCertificate
        do {
            certificate = try HardwareCertificate(HardwareCertificate.withoutPadding(der))
        } catch {
            throw AttestationAnchorError(path: path, reason: error.description)
        }
        if case .flawed(let flaw, _) = certificate.asIssuer {
            throw AttestationAnchorError(
                path: path, reason: "\(certificate.subjectText): \(flaw)")
        }
        if !isRoot, let algorithm = CertificateKey.unsupportedSignature(of: certificate) {
            throw AttestationAnchorError(
                path: path,
                reason:
                    "\(certificate.subjectText) is signed with \(algorithm), which is not supported"
            )
        }
        return certificate
    }
}
