internal import FoundationEssentials
internal import Latchkey

/// The parameters of `authenticatorMakeCredential` (CTAP 2.0 section
/// "authenticatorMakeCredential").
struct RegistrationRequest: Hashable, Sendable {
    /// The sites with which browsers make a user select a device. They are never credentials.
    static let dummySites: Set<String> = ["make.me.blink", ".dummy"]
    private static let es256 = -7

    let clientDataHash: [UInt8]
    let rpID: String
    let rpName: String?
    let userID: Data
    let userName: String?
    let displayName: String?
    let excluded: [Data]
    /// The level of `credProtect`, or nil if the client did not request the extension.
    let protection: Int?
    let wantsMACKey: Bool
    let isDiscoverable: Bool
    /// Whether the attestation is `none` instead of `packed`.
    let isUnattested: Bool
    /// Whether the request only selects a device.
    let isProbe: Bool

    init(_ parameters: CTAPParameters) throws(CTAPStatus) {
        isProbe = try TokenParameter(parameters[8]) == .probe
        clientDataHash = try parameters.bytes(1, count: 32...32)
        let site = try parameters.map(2)
        rpID = try CTAPParameters.checkedRPID(site.required("id"))
        rpName = try site.text("name")
        let user = try parameters.map(3)
        userID = Data(try user.bytes("id", count: 1...64))
        userName = try user.text("name")
        displayName = try user.text("displayName")
        try Self.checkAlgorithms(parameters.required(4))
        excluded = try parameters.credentialIDs(5) ?? []
        let extensions = try parameters.optionalMap(6)
        protection = try extensions.integer("credProtect")
        guard (1...3).contains(protection ?? 1) else { throw .invalidParameter }
        wantsMACKey = try extensions.flag("hmac-secret") ?? false
        let options = try parameters.optionalMap(7)
        isDiscoverable = try options.flag("rk") ?? false
        _ = try options.flag("uv")
        guard try options.flag("up") ?? true else { throw .invalidOption }
        guard parameters[10] == nil else { throw .invalidParameter }
        isUnattested = try Self.prefersNone(parameters[11])
    }

    private static func checkAlgorithms(_ value: CBORValue) throws(CTAPStatus) {
        guard let elements = value.array else { throw .unexpectedType }
        var isSupported = false
        for element in elements {
            guard let element = element.map, let type = element["type"]?.text else {
                throw .unexpectedType
            }
            guard type == "public-key" else { continue }
            guard let algorithm = element["alg"]?.integer else { throw .unexpectedType }
            if algorithm == es256 { isSupported = true }
        }
        guard isSupported else { throw .unsupportedAlgorithm }
    }

    /// Whether `none` comes before `packed` in the preferred formats (CTAP 2.2).
    private static func prefersNone(_ value: CBORValue?) throws(CTAPStatus) -> Bool {
        guard let value else { return false }
        guard let elements = value.array else { throw .unexpectedType }
        for element in elements {
            guard let format = element.text else { throw .unexpectedType }
            if format == "none" { return true }
            if format == "packed" { return false }
        }
        return false
    }
}
