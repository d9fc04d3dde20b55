import Latchkey
import LatchkeySSH

/// What has a PIN in a container: in a TPM without the presence broker each key has its own, and the
/// vaults and credentials share one.
struct PINHolders {
    /// The name of the part that shares one PIN.
    static let secrets = "the vaults and credentials"
    /// The number of names in a prompt.
    private static let limit = 3

    let names: [String]

    /// The names as a part of a sentence.
    var text: String {
        guard names.count > 1 else { return names.first ?? "the keys, vaults and credentials" }
        guard names.count <= Self.limit else {
            let first = names.prefix(Self.limit - 1).joined(separator: ", ")
            return "\(first) and \(names.count - Self.limit + 1) more"
        }
        return names.dropLast().joined(separator: ", ") + " and \(names.last ?? "")"
    }
}

extension RecordContainer {
    /// What ‘latchkey pin change’ changes without further arguments, from the records, unverified.
    /// Does not use the hardware.
    func pinHolders() async throws(KeystoreError) -> PINHolders {
        func isIncluded(_ record: Record) -> Bool {
            !ProtectionClass.hasOwnPIN(record.protection.name)
        }
        var names = try await keys().filter(isIncluded).compactMap(Self.holder)
        let kinds = try await store.contents().first { $0.name == name }?.kinds.keys.sorted() ?? []
        for kind in kinds {
            let hasSecret = try await list(kind).contains {
                $0.protection.policy.hasPIN && isIncluded($0)
            }
            guard hasSecret else { continue }
            names.append(PINHolders.secrets)
            break
        }
        return PINHolders(names: names)
    }

    private static func holder(_ record: Record) -> String? {
        guard let key = record.key, key.policy.hasPIN else { return nil }
        return switch record.owner {
        case "login": "the biometric login (key \(key.id.rawValue.prefix(8)))"
        case "locker": "the locker"
        case KeyReport.sshUse: "the SSH key ‘\(key.name)’"
        default: "the key ‘\(key.name)’"
        }
    }
}
