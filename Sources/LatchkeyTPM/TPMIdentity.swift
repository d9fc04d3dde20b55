internal import TPM2

/// Which TPM it is, by its own account (TPM 2.0 Part 2 section 6.13).
package struct TPMIdentity: Hashable, Sendable {
    /// The vendor's letters in the TCG's registry, for example `STM`, `IFX`, `INTC`, `AMD`, `IBM`.
    package let manufacturer: String
    /// The vendor's name for the chip, for example `SLB9670`.
    package let model: String
    /// For example `7.85`.
    package let firmware: String
    /// Whether it says that it is software: swtpm, or the specification's reference implementation.
    package let isSimulated: Bool

    /// All three in a line, for example `IFX SLB9670 firmware 7.85`.
    package var description: String { "\(manufacturer) \(model) firmware \(firmware)" }

    init(_ tpm: TPM) throws(TPMError) {
        let properties = try tpm.properties(from: .revision, count: 11)
        let strings: [TPMProperty] = [.vendorString1, .vendorString2, .vendorString3, .vendorString4]
        manufacturer = Self.text(properties[.manufacturer] ?? 0).trimmed
        model = strings.map { Self.text(properties[$0] ?? 0) }.joined().split(separator: " ").joined(separator: " ")
        let version = properties[.firmwareVersion1] ?? 0
        firmware = "\(version >> 16).\(version & 0xffff)"
        isSimulated = manufacturer == "IBM" && model.hasPrefix("SW") || model == "xCG fTPM"
    }

    /// Four letters in a number; what is not printable ASCII is left out.
    private static func text(_ value: UInt32) -> String {
        let bytes = withUnsafeBytes(of: value.bigEndian) { Array($0) }
        return String(decoding: bytes.filter { (0x20...0x7e).contains($0) }, as: UTF8.self)
    }
}

extension String {
    fileprivate var trimmed: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
