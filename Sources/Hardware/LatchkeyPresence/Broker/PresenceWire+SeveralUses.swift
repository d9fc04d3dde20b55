package import FoundationEssentials
package import Latchkey

/// Requests with several uses.
///
/// `ApproveSeveral` has the arguments of `Approve`, and `further`: for each further use one byte (1
/// `mac`, 2 `unseal`, 3 a signature whose digest follows), the key's Name (34 bytes), the nonce
/// (32) and the message (32; zeros for 2 and 3). It returns the expiration, the signature, the
/// further signatures (64 bytes each), and the ticket (32 bytes or none). `Complete` has the
/// ticket, the use and the digest, and returns the same as `Approve`.
extension PresenceWire {
    private static let nameBytes = 34
    private static let nonceBytes = 32
    private static let messageBytes = 32
    private static let signatureBytes = 64

    package static func arguments(several request: ApprovalRequest) -> [BusValue] {
        var bytes: [UInt8] = []
        for further in request.further {
            switch further.use {
            case .mac(let message)?: bytes += [1] + further.keyName + further.nonceTPM + message
            case .unseal?:
                bytes +=
                    [2] + further.keyName + further.nonceTPM
                    + [UInt8](repeating: 0, count: messageBytes)
            default:
                bytes +=
                    [3] + further.keyName + further.nonceTPM
                    + [UInt8](repeating: 0, count: messageBytes)
            }
        }
        return arguments(request) + [.bytes(bytes)]
    }

    package static func severalRequest(_ arguments: [BusValue]) -> ApprovalRequest? {
        let length = 1 + nameBytes + nonceBytes + messageBytes
        guard arguments.count == 9, var request = request(Array(arguments.dropLast())),
            let bytes = arguments[8].bytes, bytes.count.isMultiple(of: length),
            (1...ApprovalRequest.maximumFurtherUses).contains(bytes.count / length)
        else { return nil }
        for start in stride(from: 0, to: bytes.count, by: length) {
            let record = bytes[start..<(start + length)].dropFirst()
            let message = Data(record.suffix(messageBytes))
            let use: ApprovalRequest.Use?
            switch bytes[start] {
            case 1: use = .mac(message)
            case 2 where message.allSatisfy { $0 == 0 }: use = .unseal
            case 3 where message.allSatisfy { $0 == 0 }: use = nil
            default: return nil
            }
            request.further.append(
                .init(
                    use: use, keyName: Data(record.prefix(nameBytes)),
                    nonceTPM: Data(record.dropFirst(nameBytes).prefix(nonceBytes))))
        }
        return request
    }

    package static func arguments(several approval: PresenceApproval) -> [BusValue] {
        arguments(approval)
            + [
                .bytes(approval.further.flatMap { Array($0.rawRepresentation) }),
                .bytes(Array(approval.ticket ?? Data())),
            ]
    }

    static func severalApproval(_ arguments: [BusValue]) -> PresenceApproval? {
        guard arguments.count == 4, var approval = approval(Array(arguments.prefix(2))),
            let further = arguments[2].bytes, further.count.isMultiple(of: signatureBytes),
            further.count <= signatureBytes * ApprovalRequest.maximumFurtherUses,
            let ticket = arguments[3].bytes,
            ticket.isEmpty || ticket.count == 32
        else { return nil }
        for start in stride(from: 0, to: further.count, by: signatureBytes) {
            guard
                let signature = ECDSASignature(
                    rawRepresentation: further[start..<(start + signatureBytes)])
            else {
                return nil
            }
            approval.further.append(signature)
        }
        approval.ticket = ticket.isEmpty ? nil : Data(ticket)
        return approval
    }

    package static func arguments(completing ticket: Data, _ use: ApprovalRequest.Use) -> [BusValue]
    {
        let (name, digest) = words(use)
        return [.bytes(Array(ticket)), .string(name), .bytes(digest)]
    }

    package static func completion(_ arguments: [BusValue]) -> (
        ticket: Data, use: ApprovalRequest.Use
    )? {
        guard arguments.count == 3, let ticket = arguments[0].bytes, ticket.count == 32,
            let use = use(arguments[1], arguments[2])
        else { return nil }
        return (Data(ticket), use)
    }
}
