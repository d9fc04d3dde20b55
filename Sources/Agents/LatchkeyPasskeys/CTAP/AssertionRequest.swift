internal import FoundationEssentials
internal import Latchkey

/// The parameters of `authenticatorGetAssertion` (CTAP 2.0 section "authenticatorGetAssertion").
struct AssertionRequest: Sendable {
    let rpID: String
    let clientDataHash: [UInt8]
    /// The permitted credentials; nil if the client has no list.
    let allowed: [Data]?
    /// The request for PRF outputs, if there is one.
    let secret: HMACSecret?
    /// Whether the client only looks for a credential, without a prompt.
    let isSilent: Bool
    /// Whether the request only selects a device.
    let isProbe: Bool

    /// - Parameter agreement: The key with which `hmac-secret` is encrypted.
    init(_ parameters: CTAPParameters, agreement: HMACSecret.Agreement) throws(CTAPStatus) {
        isProbe = try TokenParameter(parameters[6]) == .probe
        rpID = try CTAPParameters.checkedRPID(parameters.required(1))
        clientDataHash = try parameters.bytes(2, count: 32...32)
        let ids = try parameters.credentialIDs(3)
        // An empty list is no list. A list with elements of other types only permits nothing.
        allowed = parameters[3]?.array?.isEmpty == true ? nil : ids
        let options = try parameters.optionalMap(5)
        guard options["rk"] == nil else { throw .unsupportedOption }
        _ = try options.flag("uv")
        isSilent = try !(options.flag("up") ?? true)
        let extensions = try parameters.optionalMap(4)
        guard extensions["hmac-secret"] != nil else {
            secret = nil
            return
        }
        guard !isSilent else { throw .unsupportedOption }
        secret = try HMACSecret(extensions.map("hmac-secret"), agreement: agreement)
    }
}
