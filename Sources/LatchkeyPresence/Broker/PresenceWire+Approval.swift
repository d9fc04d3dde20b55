internal import FoundationEssentials
package import Latchkey

extension PresenceWire {
    /// `use, keyName, digest, nonceTPM, requirement, reuse, reason, container`.
    package static func arguments(_ request: ApprovalRequest) -> [BusValue] {
        let (use, digest): (String, [UInt8]) =
            switch request.use {
            case .sign(let digest): ("sign", digest.bytes)
            case .unseal: ("unseal", [])
            }
        return [.string(use), .bytes(Array(request.keyName)), .bytes(digest), .bytes(Array(request.nonceTPM))]
            + arguments(request.policy) + [shortened(request.context.reason), shortened(request.context.container)]
    }

    /// A text of the prompt, no longer than the broker accepts. The broker shows only the beginning.
    private static func shortened(_ text: String) -> BusValue {
        .string(String(oneLine: text, limit: ApprovalRequest.maximumTextBytes / 4))
    }

    package static func request(_ arguments: [BusValue]) -> ApprovalRequest? {
        guard arguments.count == 8, let use = use(arguments[0], arguments[2]), let name = arguments[1].bytes,
            let nonce = arguments[3].bytes, let policy = policy(arguments[4...5]), let reason = arguments[6].string,
            let container = arguments[7].string
        else { return nil }
        return ApprovalRequest(
            use: use, keyName: Data(name), nonceTPM: Data(nonce), policy: policy,
            context: PromptContext(reason: reason, container: container))
    }

    package static func arguments(_ approval: PresenceApproval) -> [BusValue] {
        [.int32(approval.expiration), .bytes(Array(approval.signature.rawRepresentation))]
    }

    static func approval(_ arguments: [BusValue]) -> PresenceApproval? {
        guard arguments.count == 2, let expiration = arguments[0].int32, let raw = arguments[1].bytes,
            let signature = ECDSASignature(rawRepresentation: raw)
        else { return nil }
        return PresenceApproval(expiration: expiration, signature: signature)
    }

    private static func use(_ use: BusValue, _ digest: BusValue) -> ApprovalRequest.Use? {
        switch (use.string, digest.bytes) {
        case ("sign", let bytes?): MessageDigest(bytes: bytes).map(ApprovalRequest.Use.sign)
        case ("unseal", let bytes?) where bytes.isEmpty: .unseal
        default: nil
        }
    }
}
