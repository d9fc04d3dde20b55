internal import CLibP11
internal import FoundationEssentials

extension LibP11Token {
    /// Stores a certificate. The one who may write is logged in.
    ///
    /// - Throws: `malformed` for what is no certificate.
    func storeCertificate(_ der: Data, id: Data, label: String) throws(CryptokiError) {
        LibP11Error.clear()
        let parsed = der.withUnsafeBytes { buffer in
            var position = buffer.assumingMemoryBound(to: UInt8.self).baseAddress
            return d2i_X509(nil, &position, buffer.count)
        }
        guard let certificate = parsed else {
            throw CryptokiError(.malformed, function: "d2i_X509", reason: "it is no X.509 certificate")
        }
        defer { X509_free(certificate) }
        var id = Array(id)
        var name = Array(label.utf8CString)
        guard PKCS11_store_certificate(token, certificate, &name, &id, id.count, nil) == 0 else {
            throw LibP11Error.take("C_CreateObject")
        }
    }

    /// Removes the certificates with that `CKA_ID`, but for the one that ykcs11 makes up of a YubiKey's attestation.
    ///
    /// - Returns: How many there were.
    func removeCertificates(id: Data) throws(CryptokiError) -> Int {
        let entries = try entries(id: id)
        for entry in entries {
            LibP11Error.clear()
            guard PKCS11_remove_certificate(entry) == 0 else { throw LibP11Error.take("C_DestroyObject") }
        }
        return entries.count
    }

    private func entries(id: Data) throws(CryptokiError) -> [UnsafeMutablePointer<PKCS11_CERT>] {
        LibP11Error.clear()
        var first: UnsafeMutablePointer<PKCS11_CERT>?
        var count: UInt32 = 0
        guard PKCS11_enumerate_certs(token, &first, &count) == 0 else {
            throw LibP11Error.take("PKCS11_enumerate_certs")
        }
        return (0..<Int(count)).compactMap { first?.advanced(by: $0) }
            .filter { Self.bytes($0.pointee.id, $0.pointee.id_len) == id && !Self.isAttestation($0.pointee.label) }
    }

    private static func isAttestation(_ label: UnsafeMutablePointer<CChar>?) -> Bool {
        label.map { String(cString: $0).hasPrefix("X.509 Certificate for PIV Attestation") } ?? false
    }
}
