internal import FoundationEssentials

/// A certificate on a token (`CKO_CERTIFICATE`, X.509).
struct TokenCertificate: Hashable, Sendable {
    /// `CKA_ID`: the key's.
    let id: Data
    let label: String
    /// DER, at most 16 KiB.
    let der: Data
}
