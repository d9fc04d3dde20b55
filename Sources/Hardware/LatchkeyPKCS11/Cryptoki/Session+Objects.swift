internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import X509

extension Session {
    /// More objects than any token holds: a module that finds more is broken.
    private static let maximumObjects = 16_384

    /// The objects that match a template.
    func objects(_ objectClass: ObjectClass, id: Data? = nil, label: String? = nil)
        throws(CryptokiError)
        -> [ObjectHandle]
    {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, objectClass.rawValue)
        if let id { template.set(CKA_ID, id) }
        if let label { template.set(CKA_LABEL, label.utf8) }
        try call("C_FindObjectsInit") { list in
            template.withAttributes { list.pointee.C_FindObjectsInit?(handle, $0, $1) }
        }
        let found = Result { () throws(CryptokiError) in try collect() }
        // Its answer does not change the result.
        _ = try call.answer("C_FindObjectsFinal") { $0.pointee.C_FindObjectsFinal?(handle) }
        return try found.get()
    }

    /// The public or private half of the key with a `CKA_ID`; nil if there is none.
    ///
    /// - Throws: `keyAmbiguous` if the token has several such keys.
    func keyHalf(_ objectClass: ObjectClass, id: Data) throws(CryptokiError) -> ObjectHandle? {
        let found = try objects(objectClass, id: id)
        guard found.count <= 1 else {
            throw CryptokiError(
                .keyAmbiguous,
                reason:
                    "the token has \(found.count) \(objectClass == .publicKey ? "public" : "private") keys with one CKA_ID"
            )
        }
        return found.first
    }

    private func collect() throws(CryptokiError) -> [ObjectHandle] {
        var found: [ObjectHandle] = []
        var batch = [CK_OBJECT_HANDLE](repeating: 0, count: 64)
        while found.count < Self.maximumObjects {
            var count: CK_ULONG = 0
            let room = CK_ULONG(batch.count)
            try call("C_FindObjects") { $0.pointee.C_FindObjects?(handle, &batch, room, &count) }
            guard count <= room else {
                throw .malformed("C_FindObjects", "more objects than requested")
            }
            guard count > 0 else { return found }
            found += batch.prefix(Int(count)).map { ObjectHandle(rawValue: $0) }
        }
        throw .malformed("C_FindObjects", "the number of objects is too large")
    }

    /// The bytes of an attribute; nil if the object does not have or does not show it.
    ///
    /// - Parameter most: The maximum length in bytes. A longer attribute is `malformed`.
    func attribute(_ type: UInt, of object: ObjectHandle, most: Int) throws(CryptokiError)
        -> [UInt8]?
    {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: most, alignment: MemoryLayout<UInt>.alignment)
        defer { buffer.deallocate() }
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        return try attribute(type, of: object, into: buffer).map { Array(buffer.prefix($0)) }
    }

    /// - Returns: The number of bytes written.
    func attribute(
        _ type: UInt, of object: ObjectHandle, into buffer: UnsafeMutableRawBufferPointer
    ) throws(CryptokiError) -> Int? {
        let function = "C_GetAttributeValue"
        // Each call gets a new attribute: a module may set the pointer to null, and the next would
        // write nothing.
        var attribute = CK_ATTRIBUTE(
            type: type, pValue: buffer.baseAddress, ulValueLen: CK_ULONG(buffer.count))
        let value = try call.answer(function) {
            $0.pointee.C_GetAttributeValue?(handle, object.rawValue, &attribute, 1)
        }
        switch value {
        case .ok where attribute.ulValueLen == CK_ULONG.max: return nil
        case .attributeSensitive, .attributeTypeInvalid, .attributeValueInvalid,
            .functionNotSupported:
            return nil
        case .ok:
            guard attribute.pValue == buffer.baseAddress,
                attribute.ulValueLen <= CK_ULONG(buffer.count)
            else {
                throw .malformed(function, "an attribute has an impossible length")
            }
            return Int(attribute.ulValueLen)
        case .bufferTooSmall: throw .malformed(function, "an attribute is too long")
        default: throw CryptokiError(value, from: function)
        }
    }

    func flag(_ type: UInt, of object: ObjectHandle) throws(CryptokiError) -> Bool? {
        guard let bytes = try attribute(type, of: object, most: MemoryLayout<UInt>.size),
            !bytes.isEmpty
        else {
            return nil
        }
        guard bytes.count == 1 else {
            throw .malformed("C_GetAttributeValue", "a flag has \(bytes.count) bytes")
        }
        return bytes[0] != 0
    }

    /// A flag that modules need not have. nil also if the module answers an error: the use of the
    /// object then decides.
    func optionalFlag(_ type: UInt, of object: ObjectHandle) throws(CryptokiError) -> Bool? {
        do throws(CryptokiError) {
            return try flag(type, of: object)
        } catch {
            guard let value = error.returnValue,
                [.generalError, .functionFailed, .argumentsBad].contains(value)
            else { throw error }
            return nil
        }
    }

    /// Destroys an object. An object that does not exist is not an error.
    func destroy(_ object: ObjectHandle) throws(CryptokiError) {
        let function = "C_DestroyObject"
        let value = try call.answer(function, .person) {
            $0.pointee.C_DestroyObject?(handle, object.rawValue)
        }
        guard value == .ok || value == .objectHandleInvalid else {
            throw CryptokiError(value, from: function)
        }
    }

    func identifier(of object: ObjectHandle) throws(CryptokiError) -> Data {
        Data(try attribute(CKA_ID, of: object, most: TokenKey.maximumIDBytes) ?? [])
    }

    func label(of object: ObjectHandle) throws(CryptokiError) -> String {
        String(decoding: try attribute(CKA_LABEL, of: object, most: 1024) ?? [], as: UTF8.self)
    }
}

extension CryptokiError {
    static func malformed(_ function: String, _ reason: String) -> CryptokiError {
        CryptokiError(
            .malformed, function: function, reason: "the module's answer is malformed: \(reason)")
    }
}

/// Attributes for a module. Their memory layout is created for each call, because modules write
/// into templates.
struct AttributeTemplate {
    private var rows: [(type: UInt, value: [UInt8])] = []

    mutating func set(_ type: UInt, _ value: some Sequence<UInt8>) {
        rows.append((type, Array(value)))
    }
    mutating func set(_ type: UInt, _ value: Bool) { set(type, [value ? 1 : 0]) }
    mutating func set(_ type: UInt, _ value: UInt) {
        set(type, withUnsafeBytes(of: value) { Array($0) })
    }

    /// Passes the template in Cryptoki's layout.
    func withAttributes<R>(_ body: (UnsafeMutablePointer<CK_ATTRIBUTE>?, CK_ULONG) -> R) -> R {
        // Modules read numbers as `CK_ULONG *`, so each value is aligned for one.
        let alignment = MemoryLayout<CK_ULONG>.alignment
        func room(_ count: Int) -> Int { (count + alignment - 1) / alignment * alignment }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: rows.reduce(alignment) { $0 + room($1.value.count) }, alignment: alignment)
        defer { bytes.deallocate() }
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        var attributes: [CK_ATTRIBUTE] = []
        var start = 0
        for (type, value) in rows {
            let place = UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + value.count])
            place.copyBytes(from: value)
            attributes.append(
                CK_ATTRIBUTE(
                    type: type, pValue: bytes.baseAddress.map { $0 + start },
                    ulValueLen: CK_ULONG(value.count)))
            start += room(value.count)
        }
        return attributes.withUnsafeMutableBufferPointer {
            body($0.baseAddress, CK_ULONG($0.count))
        }
    }
}

/// `CK_OBJECT_CLASS`, the classes that are used here.
enum ObjectClass: UInt, Sendable {
    case certificate = 1
    case publicKey = 2
    case privateKey = 3
    case secretKey = 4
}

/// `CK_OBJECT_HANDLE`, valid only in the session that returned it.
struct ObjectHandle: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt
}

/// A certificate on a token (`CKO_CERTIFICATE`, X.509).
struct TokenCertificate: Hashable, Sendable {
    let label: String
    /// DER, at most 16 KiB.
    let der: Data

    /// The certified key, if it is on P-256.
    var publicKey: PublicKey? {
        (try? Certificate(derEncoded: Array(der))).flatMap { PublicKey(certifiedBy: $0) }
    }

    /// Whether this is an attestation, which ykcs11 shows as a certificate with the key's `CKA_ID`.
    var isAttestation: Bool { label.hasPrefix("X.509 Certificate for PIV Attestation") }

    /// The maximum length of a certificate, in bytes.
    static let maximumBytes = 16 * 1024
}

extension PublicKey {
    /// - Returns: nil if the certified key is not on P-256.
    init?(certifiedBy certificate: Certificate) {
        guard let key = P256.Signing.PublicKey(certificate.publicKey),
            let point = try? PublicKey(x963Representation: key.x963Representation)
        else { return nil }
        self = point
    }
}

extension Session {
    /// The X.509 certificates with a `CKA_ID`.
    func certificates(id: Data) throws(CryptokiError) -> [TokenCertificate] {
        var certificates: [TokenCertificate] = []
        for object in try objects(.certificate, id: id) {
            guard
                let der = try attribute(CKA_VALUE, of: object, most: TokenCertificate.maximumBytes),
                !der.isEmpty
            else { continue }
            certificates.append(TokenCertificate(label: try label(of: object), der: Data(der)))
        }
        return certificates
    }

    /// Stores a certificate. The user or the security officer must be logged in, as the token
    /// requires for writing.
    ///
    /// - Parameter der: The bytes of `certificate`.
    func storeCertificate(
        _ certificate: Certificate, der: Data, id: Data, label: String
    ) throws(CryptokiError) {
        try checkCancellation()
        let function = "C_CreateObject"
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.certificate.rawValue)
        template.set(CKA_CERTIFICATE_TYPE, UInt(CKC_X_509))
        template.set(CKA_TOKEN, true)
        do {
            template.set(CKA_SUBJECT, try certificate.subject.derBytes())
            template.set(CKA_ISSUER, try certificate.issuer.derBytes())
            template.set(CKA_SERIAL_NUMBER, try certificate.serialNumber.bytes.derBytes())
        } catch {
            throw CryptokiError(
                .malformed, function: function,
                reason: "the certificate's names can't be serialized: \(error)")
        }
        template.set(CKA_VALUE, der)
        template.set(CKA_ID, id)
        template.set(CKA_LABEL, label.utf8)
        try call(function, .person) { list in
            var object: CK_OBJECT_HANDLE = 0
            return template.withAttributes { list.pointee.C_CreateObject?(handle, $0, $1, &object) }
        }
    }
}
