extension ResponseCode: CustomStringConvertible {
    private static let texts: [ResponseCode: String] = [
        .success: "success", .initialize: "the TPM has not been started", .failure: "the TPM is in failure mode",
        .disabled: "the command is disabled", .authType: "this kind of authorization is not accepted here",
        .policy: "a policy comparison failed", .commandSize: "the command has the wrong size",
        .commandCode: "the TPM does not have this command", .nvUninitialized: "nothing was ever written there",
        .nvSpace: "the TPM's memory is full",
        .nvDefined: "the index or handle is in use already",
        .authUnavailable: "neither authValue nor policy can authorize this",
        .contextGap: "too many sessions were saved since the oldest one",
        .objectMemory: "the TPM has no room for another object",
        .sessionMemory: "the TPM has no room for another session", .memory: "the TPM is out of memory",
        .sessionHandles: "the TPM has no session handle left", .objectHandles: "the TPM has no object handle left",
        .yielded: "the TPM yielded and wants the command again", .canceled: "the command was cancelled",
        .testing: "the TPM is testing itself", .referenceH0: "the object is not loaded",
        .referenceS0: "the session is not loaded", .nvRate: "the TPM writes to its memory too often and wants a pause",
        .lockout: "the TPM takes no authorization while it is locked against guessing",
        .retry: "the TPM wants the command again", .nvUnavailable: "the TPM's memory can't be written now",
        .attributes: "the attributes don't fit", .hash: "the hash algorithm does not fit",
        .value: "a value is out of its range", .hierarchy: "the hierarchy is disabled or wrong",
        .type: "the type does not fit", .handle: "there is nothing with this handle",
        .authFail: "the authorization failed and was counted", .nonce: "a nonce has the wrong size or value",
        .scheme: "the scheme does not fit", .size: "a field has the wrong size",
        .symmetric: "the symmetric algorithm does not fit", .selector: "a selector is unknown",
        .insufficient: "a field ends too early", .signature: "the signature is not valid",
        .key: "the key does not fit", .policyFail: "the policy is not satisfied",
        .integrity: "the integrity check failed", .ticket: "the ticket is not valid",
        .badAuth: "the authorization failed and is not counted", .expired: "the approval has expired",
        .binding: "the public and the private part don't belong together", .curve: "the TPM does not have this curve",
        .eccPoint: "the point is not on the curve",
    ]

    /// For people: `session 1: the authorization failed and was counted (0x98e)`.
    public var description: String {
        let number = "0x" + String(rawValue, radix: 16)
        guard isFromTPM else { return "layer \(layer.rawValue) of tpm2-tss answered \(number)" }
        let text = "\(Self.texts[base] ?? "the TPM refused") (\(number))"
        switch subject {
        case .parameter(let index): return "parameter \(index): \(text)"
        case .session(let index): return "session \(index): \(text)"
        case .handle(let index) where index > 0: return "handle \(index): \(text)"
        case .handle, nil: return text
        }
    }
}
