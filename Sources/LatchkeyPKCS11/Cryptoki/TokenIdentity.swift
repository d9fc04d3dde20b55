/// By what a token is known again after it was pulled, in whatever slot it comes back.
struct TokenIdentity: Hashable, Sendable {
    let manufacturer: String
    let model: String
    let serial: String
    /// nil where the label may change under a token that stays the same: OpenSC shows the subject of a certificate.
    let label: String?

    init(_ token: TokenInformation, in profile: ModuleProfile) {
        manufacturer = token.manufacturer
        model = token.model
        serial = token.serial
        let tellsApart = token.serial.contains { $0 != "0" }
        label = profile.family == .opensc && tellsApart ? nil : token.label
    }
}

extension TokenIdentity: CustomStringConvertible {
    /// For example `“latchkey” (serial 0123456789abcdef)`.
    var description: String {
        let name = label ?? model
        return serial.isEmpty ? "“\(name)”" : "“\(name)” (serial \(serial))"
    }
}
