public import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import SwiftASN1

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

        /// Whether a chain can end here.
        package var hasRoots: Bool { !roots.isEmpty }

        /// No certificates: nothing is trusted.
        public static let none = Group(roots: [HardwareCertificate](), intermediates: [])

        init(roots: [HardwareCertificate], intermediates: [HardwareCertificate]) {
            self.roots = roots
            self.intermediates = intermediates
        }
    }

    /// Roots of TPM manufacturers, for endorsement certificates.
    let tpm: Group
    /// Roots of token manufacturers, for PIV attestation certificates.
    let piv: Group
    /// Issuers of certificates for attestation keys in hardware: this server's
    /// ``EndorsementAuthority`` and others.
    let aik: Group
    /// Roots of simulators, for certificates of all kinds. A verdict under one of them is
    /// simulated.
    let simulated: Group

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
    /// - Parameter directory: A path. A missing subdirectory is an empty set. Any other entry is an
    ///   error.
    /// - Throws: ``AttestationAnchorError``.
    public init(directory: String) throws(AttestationAnchorError) {
        let names = ["aik", "piv", "simulated", "tpm"]
        let entries = try AttestationAnchorError.entries(of: directory)
        if let other = entries.first(where: { !names.contains($0) }) {
            throw AttestationAnchorError(
                path: directory + "/" + other, reason: "it is not one of \(names)")
        }
        func set(_ name: String) throws(AttestationAnchorError) -> Group {
            entries.contains(name) ? try Group(directory: directory + "/" + name) : .none
        }
        self.init(
            tpm: try set("tpm"), piv: try set("piv"), aik: try set("aik"),
            simulated: try set("simulated"))
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
                    try AttestationAnchorError.certificate(der, path: "\(name)[\(index)]"))
            }
            return certificates
        }
        self.init(
            roots: try read(roots, "roots"), intermediates: try read(intermediates, "intermediates")
        )
    }

    /// Joins sets.
    package init(_ groups: [AttestationAnchors.Group]) {
        self.init(roots: groups.flatMap(\.roots), intermediates: groups.flatMap(\.intermediates))
    }

    /// Reads the certificates in the directories `roots` and `intermediates` of a directory.
    ///
    /// - Parameter directory: A path. Its files end in `.pem`, `.crt`, `.cer` or `.der` and contain
    ///   one certificate in DER or any number in PEM (RFC 7468). A missing subdirectory is empty.
    ///   Any other entry is an error, and so is an unreadable file: a server must not start with
    ///   fewer anchors than its operator expects.
    /// - Throws: ``AttestationAnchorError``.
    public init(directory: String) throws(AttestationAnchorError) {
        let entries = try AttestationAnchorError.entries(of: directory)
        if let other = entries.first(where: { $0 != "roots" && $0 != "intermediates" }) {
            throw AttestationAnchorError(
                path: directory + "/" + other, reason: "it is neither roots nor intermediates")
        }
        func read(_ name: String) throws(AttestationAnchorError) -> [HardwareCertificate] {
            guard entries.contains(name) else { return [] }
            let folder = directory + "/" + name
            var certificates: [HardwareCertificate] = []
            for file in try AttestationAnchorError.entries(of: folder) {
                certificates += try AttestationAnchorError.certificates(inFile: folder + "/" + file)
            }
            return certificates
        }
        self.init(roots: try read("roots"), intermediates: try read("intermediates"))
    }
}

/// The reason why trust anchors could not be read.
public struct AttestationAnchorError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file or directory.
    public let path: String
    /// The cause.
    public let reason: String

    public var description: String { "Could not read the trust anchor \(path): \(reason)." }

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
                reason: "the directory cannot be listed: \(cause(directory, O_DIRECTORY, error))")
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

    /// The system's message for a file or directory that cannot be opened or is a directory instead
    /// of a file.
    ///
    /// - Parameters:
    ///   - flags: Flags of `open`.
    ///   - error: The error to describe if the path can be opened.
    private static func cause(_ path: String, _ flags: Int32, _ error: any Error) -> String {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags)
        guard descriptor >= 0 else { return SystemError.last.description }
        defer { close(descriptor) }
        var byte: UInt8 = 0
        guard flags == 0, read(descriptor, &byte, 1) < 0 else { return "\(error)" }
        return SystemError.last.description
    }

    static func certificates(inFile path: String) throws(AttestationAnchorError)
        -> [HardwareCertificate]
    {
        guard suffixes.contains(where: path.lowercased().hasSuffix) else {
            throw AttestationAnchorError(
                path: path, reason: "its name does not end in .pem, .crt, .cer or .der")
        }
        let bytes: Data
        do {
            bytes = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw AttestationAnchorError(
                path: path, reason: "the file cannot be read: \(cause(path, 0, error))")
        }
        try checkTrust(path)
        guard bytes.count <= maximumFileBytes else {
            throw AttestationAnchorError(path: path, reason: "the file has \(bytes.count) bytes")
        }
        guard bytes.first != 0x30 else { return [try certificate(bytes, path: path)] }
        let documents: [PEMDocument]
        do {
            documents = try PEMDocument.parseMultiple(
                pemString: String(decoding: bytes, as: UTF8.self))
        } catch {
            throw AttestationAnchorError(
                path: path, reason: "the file is neither DER nor PEM: \(error)")
        }
        guard !documents.isEmpty else {
            throw AttestationAnchorError(path: path, reason: "the file contains no certificate")
        }
        var certificates: [HardwareCertificate] = []
        for document in documents {
            guard document.discriminator == "CERTIFICATE" else {
                throw AttestationAnchorError(
                    path: path, reason: "the file contains a \(document.discriminator)")
            }
            certificates.append(try certificate(Data(document.derBytes), path: path))
        }
        return certificates
    }

    /// Reads a CA certificate with a supported key.
    static func certificate(_ der: Data, path: String) throws(AttestationAnchorError)
        -> HardwareCertificate
    {
        do throws(HardwareCertificate.Malformed) {
            let certificate = try HardwareCertificate(der)
            guard try certificate.basicConstraints()?.isAuthority == true else {
                throw HardwareCertificate.Malformed(
                    description: "the certificate is not a CA certificate")
            }
            guard CertificateKey(publicKeyInfo: certificate.publicKeyInfo) != nil else {
                throw HardwareCertificate.Malformed(
                    description: "the key is neither P-256, P-384 nor RSA")
            }
            return certificate
        } catch {
            throw AttestationAnchorError(path: path, reason: error.description)
        }
    }
}
