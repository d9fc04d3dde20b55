import FoundationEssentials

/// The first form of a page that asks for a password: as much HTML as the demo's browser needs.
struct HTMLForm {
    private struct Field {
        let name: String
        let type: String
        var value: String
    }

    let action: String
    private var fields: [Field]

    /// - Returns: nil when the page asks for no password.
    init?(in page: String) {
        for form in page.split(separator: "<form", omittingEmptySubsequences: false).dropFirst() {
            let end = form.firstRange(of: "</form")?.lowerBound ?? form.endIndex
            let fields = form[..<end].split(separator: "<input").dropFirst().compactMap { input -> Field? in
                let tag = input.prefix { $0 != ">" }
                guard let name = Self.attribute("name", of: tag) else { return nil }
                return Field(
                    name: name, type: Self.attribute("type", of: tag) ?? "text",
                    value: Self.attribute("value", of: tag) ?? "")
            }
            guard fields.contains(where: { $0.type == "password" }) else { continue }
            self.fields = fields
            action = Self.attribute("action", of: form.prefix { $0 != ">" }) ?? ""
            return
        }
        return nil
    }

    /// The form as a person fills it in: the password where it is asked for, the name into the text field.
    func filled(username: String, password: String) -> HTMLForm {
        var form = self
        for index in form.fields.indices {
            switch form.fields[index].type {
            case "password": form.fields[index].value = password
            case "text", "email": form.fields[index].value = username
            default: break
            }
        }
        return form
    }

    /// `application/x-www-form-urlencoded` (URL Standard section 5.2).
    var urlEncoded: String {
        fields.map { "\(Self.encode($0.name))=\(Self.encode($0.value))" }.joined(separator: "&")
    }

    private static func attribute(_ name: String, of tag: some StringProtocol) -> String? {
        guard let start = tag.firstRange(of: " \(name)=\"")?.upperBound else { return nil }
        return [
            ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&#x2F;", "/"), ("&#x3D;", "="), ("&lt;", "<"),
            ("&gt;", ">"), ("&amp;", "&"),
        ]
        .reduce(String(tag[start...].prefix { $0 != "\"" })) { $0.replacing($1.0, with: $1.1) }
    }

    private static func encode(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII, scalar.properties.isAlphabetic || scalar.properties.numericType != nil {
                result.unicodeScalars.append(scalar)
            } else {
                result += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
    }
}
