public import Latchkey
public import X509

extension DistinguishedName {
    /// Reads a name as people write it (RFC 4514): `CN=Ann Onymous,O=Example,C=SE`, the most specific part first.
    ///
    /// - Attributes are called `CN`, `SN`, `GN`, `SERIALNUMBER`, `C`, `L`, `ST`, `STREET`, `O`, `OU`, `T`, `DC`, `UID`,
    ///   `E` or `emailAddress`, in either case, or by their object identifier in digits and dots.
    /// - `+` joins attributes to one part. Blanks around parts don't count.
    /// - In a value `\` stands before `,` `+` `"` `\` `<` `>` `;` `=` `#` or a blank, or before two hexadecimal digits
    ///   that are a byte of UTF-8.
    ///
    /// Encoded values (`#04…`) and quoted ones (RFC 1779) are not read.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput`, saying what is wrong where.
    public init(rfc4514 text: String) throws(KeystoreError) {
        var parser = NameParser(text)
        let parts = try parser.relativeNames()
        self.init(parts.reversed())
    }
}
