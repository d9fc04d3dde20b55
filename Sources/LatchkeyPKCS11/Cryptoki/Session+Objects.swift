internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
internal import Latchkey

extension Session {
    /// More objects than any token holds: a module that keeps on finding is broken.
    private static let mostObjects = 16_384

    /// The objects that fit a template.
    func objects(_ objectClass: ObjectClass, id: Data? = nil, label: String? = nil) throws(CryptokiError)
        -> [ObjectHandle]
    {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, objectClass.rawValue)
        if let id { template.set(CKA_ID, id) }
        if let label { template.set(CKA_LABEL, label.utf8) }
        return try objects(template)
    }

    private func objects(_ template: AttributeTemplate) throws(CryptokiError) -> [ObjectHandle] {
        try call("C_FindObjectsInit") { list in
            template.withAttributes { list.pointee.C_FindObjectsInit?(handle, $0, $1) }
        }
        let found = Result { () throws(CryptokiError) in try collect() }
        // What it answers changes nothing about what was found.
        _ = try call.answer("C_FindObjectsFinal") { $0.pointee.C_FindObjectsFinal?(handle) }
        return try found.get()
    }

    private func collect() throws(CryptokiError) -> [ObjectHandle] {
        var found: [ObjectHandle] = []
        var batch = [CK_OBJECT_HANDLE](repeating: 0, count: 64)
        while found.count < Self.mostObjects {
            var count: CK_ULONG = 0
            let room = CK_ULONG(batch.count)
            try call("C_FindObjects") { $0.pointee.C_FindObjects?(handle, &batch, room, &count) }
            guard count <= room else {
                throw .malformed("C_FindObjects", "it found more objects than there was room for")
            }
            guard count > 0 else { return found }
            found += batch.prefix(Int(count)).map { ObjectHandle(rawValue: $0) }
        }
        throw .malformed("C_FindObjects", "it finds no end of objects")
    }

    /// An attribute's bytes; nil where the object has none, does not show it, or does not know it.
    ///
    /// - Parameter most: how many bytes it may have. A longer one is `malformed`.
    func attribute(_ type: UInt, of object: ObjectHandle, most: Int) throws(CryptokiError) -> [UInt8]? {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: most, alignment: MemoryLayout<UInt>.alignment)
        defer { buffer.deallocate() }
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        return try attribute(type, of: object, into: buffer).map { Array(buffer.prefix($0)) }
    }

    /// - Returns: how many bytes were written.
    func attribute(
        _ type: UInt, of object: ObjectHandle, into buffer: UnsafeMutableRawBufferPointer
    ) throws(CryptokiError) -> Int? {
        let function = "C_GetAttributeValue"
        // Made anew for each call: a module may leave a null pointer behind, and the next "success" would then write
        // nothing.
        var attribute = CK_ATTRIBUTE(
            type: type, pValue: buffer.baseAddress, ulValueLen: CK_ULONG(buffer.count))
        let value = try call.answer(function) {
            $0.pointee.C_GetAttributeValue?(handle, object.rawValue, &attribute, 1)
        }
        switch value {
        case .ok where attribute.ulValueLen == CK_ULONG.max: return nil
        case .attributeSensitive, .attributeTypeInvalid: return nil
        case .ok:
            guard attribute.pValue == buffer.baseAddress, attribute.ulValueLen <= CK_ULONG(buffer.count) else {
                throw .malformed(function, "an attribute has a length that it can't have")
            }
            return Int(attribute.ulValueLen)
        case .bufferTooSmall: throw .malformed(function, "an attribute is longer than it can be")
        default: throw CryptokiError(value, from: function)
        }
    }

    func flag(_ type: UInt, of object: ObjectHandle) throws(CryptokiError) -> Bool? {
        guard let bytes = try attribute(type, of: object, most: MemoryLayout<UInt>.size), !bytes.isEmpty else {
            return nil
        }
        guard bytes.count == 1 else { throw .malformed("C_GetAttributeValue", "a flag has \(bytes.count) bytes") }
        return bytes[0] != 0
    }

    /// Destroys an object. That it is gone already is no error.
    func destroy(_ object: ObjectHandle) throws(CryptokiError) {
        let function = "C_DestroyObject"
        let value = try call.answer(function, .person) { $0.pointee.C_DestroyObject?(handle, object.rawValue) }
        guard value == .ok || value == .objectHandleInvalid else { throw CryptokiError(value, from: function) }
    }

    /// The X.509 certificates, or those of one `CKA_ID`.
    func certificates(id: Data? = nil) throws(CryptokiError) -> [TokenCertificate] {
        var certificates: [TokenCertificate] = []
        for object in try objects(.certificate, id: id) {
            guard let der = try attribute(CKA_VALUE, of: object, most: 16 * 1024), !der.isEmpty else { continue }
            certificates.append(
                TokenCertificate(id: try identifier(of: object), label: try label(of: object), der: Data(der)))
        }
        return certificates
    }

    func identifier(of object: ObjectHandle) throws(CryptokiError) -> Data {
        Data(try attribute(CKA_ID, of: object, most: TokenKey.mostIDBytes) ?? [])
    }

    func label(of object: ObjectHandle) throws(CryptokiError) -> String {
        String(decoding: try attribute(CKA_LABEL, of: object, most: 1024) ?? [], as: UTF8.self)
    }
}

extension CryptokiError {
    static func malformed(_ function: String, _ reason: String) -> CryptokiError {
        CryptokiError(.malformed, function: function, reason: "the module's answer makes no sense: \(reason)")
    }
}
