internal import CESAPI
internal import CTSS2

/// tpm2-tss's reader and writer of TPM structures (MU).
enum MarshallingUnit {
    typealias Reader<T> = (
        UnsafePointer<UInt8>?, Int, UnsafeMutablePointer<Int>?, UnsafeMutablePointer<T>?
    ) -> TSS2_RC
    typealias Writer<T> = (
        UnsafePointer<T>?, UnsafeMutablePointer<UInt8>?, Int, UnsafeMutablePointer<Int>?
    ) -> TSS2_RC

    /// Reads all of `bytes`.
    static func read<T>(_ bytes: [UInt8], into value: T, _ reader: Reader<T>) throws -> T {
        var value = value
        var offset = 0
        try ESAPI.check(reader(bytes, bytes.count, &offset, &value), "unmarshal \(T.self)")
        guard offset == bytes.count else {
            throw ESAPI.Failure(
                function: "unmarshal \(T.self): \(bytes.count - offset) bytes left", code: 0)
        }
        return value
    }

    static func write<T>(_ value: T, _ writer: Writer<T>) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 4096)
        var offset = 0
        var value = value
        try ESAPI.check(writer(&value, &bytes, bytes.count, &offset), "marshal \(T.self)")
        return Array(bytes.prefix(offset))
    }

    /// `bytes` with their length in front, as every TPM2B is on the wire.
    static func sized(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8(truncatingIfNeeded: bytes.count >> 8), UInt8(truncatingIfNeeded: bytes.count)]
            + bytes
    }

    static func digest(_ bytes: [UInt8]) throws -> TPM2B_DIGEST {
        try read(sized(bytes), into: TPM2B_DIGEST(), Tss2_MU_TPM2B_DIGEST_Unmarshal)
    }

    /// - Parameter bytes: A whole `TPM2B_PUBLIC`.
    static func publicArea(_ bytes: [UInt8]) throws -> TPM2B_PUBLIC {
        try read(bytes, into: TPM2B_PUBLIC(), Tss2_MU_TPM2B_PUBLIC_Unmarshal)
    }

    static func number(_ bytes: [UInt8]) throws -> TPM2B_ECC_PARAMETER {
        try read(sized(bytes), into: TPM2B_ECC_PARAMETER(), Tss2_MU_TPM2B_ECC_PARAMETER_Unmarshal)
    }

    /// A `TPMS_CONTEXT`, read and written again.
    static func rewritten(context: [UInt8]) throws -> [UInt8] {
        try write(
            read(context, into: TPMS_CONTEXT(), Tss2_MU_TPMS_CONTEXT_Unmarshal),
            Tss2_MU_TPMS_CONTEXT_Marshal)
    }

    /// A `TPMS_ATTEST`, read and written again.
    static func rewritten(attest: [UInt8]) throws -> [UInt8] {
        try write(
            read(attest, into: TPMS_ATTEST(), Tss2_MU_TPMS_ATTEST_Unmarshal),
            Tss2_MU_TPMS_ATTEST_Marshal)
    }

    static func bytes(_ area: TPM2B_PUBLIC) throws -> [UInt8] {
        try write(area, Tss2_MU_TPM2B_PUBLIC_Marshal)
    }

    static func bytes(_ digest: TPM2B_DIGEST) throws -> [UInt8] {
        Array(try write(digest, Tss2_MU_TPM2B_DIGEST_Marshal).dropFirst(2))
    }

    static func bytes(_ number: TPM2B_ECC_PARAMETER) throws -> [UInt8] {
        Array(try write(number, Tss2_MU_TPM2B_ECC_PARAMETER_Marshal).dropFirst(2))
    }
}
