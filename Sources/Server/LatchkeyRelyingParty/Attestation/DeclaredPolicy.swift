internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The policy of a key, recomputed from its declared branches.
///
/// Each branch is a proof of the user's presence. A branch for one command without such a proof is
/// refused: `PolicyCommandCode(Certify)` is meant for the key as the object of a statement, but the
/// TPM accepts it for the key as the signer too, and then the key signs without the user.
struct DeclaredPolicy: Sendable {
    /// The digest of the policy, or empty.
    let digest: [UInt8]
    /// The Names of the approval keys, in the order of the branches.
    let approvalKeys: [TPMName]
    /// Whether one of the branches is a PIN.
    let hasPIN: Bool
    /// Whether all `signed` branches stop to work when the enrolled fingers change.
    let isBoundToFingers: Bool
    /// The longest reuse time of the branches in seconds.
    let reuseSeconds: Int
    /// The counters with a statement of `NV_Certify`.
    let certifiedCounters:
        [(index: TPMName, value: UInt64, certification: DeclaredBranch.Certification)]

    /// - Throws: ``AttestationError`` with code `wrongPolicy`.
    init(_ branches: [DeclaredBranch], endsWithAuthValue: Bool) throws(AttestationError) {
        var digests: [PolicyDigest] = []
        var approvalKeys: [TPMName] = []
        var counters:
            [(index: TPMName, value: UInt64, certification: DeclaredBranch.Certification)] = []
        var (hasPIN, isBoundToFingers, reuse) = (false, true, 0)
        for branch in branches {
            switch branch {
            case .signed(let signed):
                let key = try Self.approvalKey(signed.key)
                var digest = PolicyDigest()
                if let counter = signed.counter {
                    let index = try Self.counter(counter, key: key, user: signed.user)
                    digest = digest.nvEquals(counter.value.marshalled, in: index)
                    if let certification = counter.certification {
                        counters.append((index, counter.value, certification))
                    }
                } else {
                    isBoundToFingers = false
                }
                digests.append(
                    digest.signed(by: key, policyRef: try Self.approvalReference(signed)))
                approvalKeys.append(key)
                reuse = max(reuse, Int(signed.reuse))
            case .pin(let index, let reset, let seconds):
                let name = try Self.pinIndex(index, reset: reset)
                digests.append(
                    PolicyDigest().secret(of: name, policyRef: Self.reference("pin", seconds)))
                hasPIN = true
                reuse = max(reuse, Int(seconds))
            case .other: throw AttestationError(.wrongPolicy, "a branch has an unknown type")
            }
        }
        guard !endsWithAuthValue || !digests.isEmpty else {
            throw AttestationError(.wrongPolicy, "a policy of PolicyAuthValue alone has no branch")
        }
        let combined = digests.count < 2 ? digests.first : PolicyDigest.or(digests)
        digest = (endsWithAuthValue ? combined?.authValue() : combined)?.bytes ?? []
        self.approvalKeys = approvalKeys
        self.hasPIN = hasPIN
        self.isBoundToFingers = isBoundToFingers && !approvalKeys.isEmpty
        reuseSeconds = reuse
        certifiedCounters = counters
    }

    /// The Name of an approval key, which signs only and cannot leave its TPM. Only its authValue
    /// authorizes it: a policy could permit its signatures without a proof.
    private static func approvalKey(_ bytes: Data) throws(AttestationError) -> TPMName {
        do {
            let key = try P256Area(bytes)
            guard key.signsDataFromOutside, key.opensWithAuthValueOnly else {
                throw AttestationError(
                    .wrongPolicy,
                    "an approval key has a policy, or its attributes are "
                        + key.attributes.hexadecimal)
            }
            return key.name
        } catch {
            throw AttestationError(.wrongPolicy, "an approval key is not acceptable: \(error)")
        }
    }

    private static func index(_ bytes: Data) throws(AttestationError) -> NVIndex {
        do {
            let index = try NVIndex(unmarshalling: bytes)
            guard index.publicArea.nameAlgorithm == .sha256, index.publicArea.dataSize == 8 else {
                throw AttestationError(
                    .wrongPolicy, "an NV index does not have 8 bytes and a SHA-256 Name")
            }
            return index
        } catch {
            throw AttestationError(.wrongPolicy, "an NV index is not acceptable: \(error)")
        }
    }

    private static func counter(
        _ counter: DeclaredBranch.Counter, key: TPMName, user: UInt32
    ) throws(AttestationError) -> TPMName {
        let index = try index(counter.index)
        let policy = PolicyDigest().signed(by: key, policyRef: reference("enrolment-change", user))
        guard index.publicArea.attributes.rawValue == 0x2206_0018,
            index.publicArea.authPolicy == policy.bytes
        else {
            throw AttestationError(
                .wrongPolicy, "the counter of enrolled fingers can be changed by others")
        }
        return index.name
    }

    /// The Name of a PIN index: the broker's (a `TPM_NT_PIN_FAIL` index), or one that was written
    /// once with a key that was then erased.
    ///
    /// The second branch of its policy names a command with the index as its only handle, and
    /// requires the current PIN.
    private static func pinIndex(_ bytes: Data, reset: Data) throws(AttestationError) -> TPMName {
        let index = try index(bytes)
        let change = PolicyDigest().authValue().commandCode(.nvChangeAuth)
        guard [0x2206_0088, 0x2004_0008].contains(index.publicArea.attributes.rawValue),
            let reset = PolicyDigest(bytes: Array(reset)),
            index.publicArea.authPolicy == PolicyDigest.or([reset, change])?.bytes
        else {
            throw AttestationError(
                .wrongPolicy, "the NV index of the PIN has other attributes or another policy")
        }
        return index.name
    }

    private static func approvalReference(_ signed: DeclaredBranch.Signed) throws(AttestationError)
        -> [UInt8]
    {
        let isCurrentSet = signed.requirement == "biometry-current-set"
        guard isCurrentSet || ["user-presence", "biometry-any"].contains(signed.requirement),
            isCurrentSet ? signed.set?.count == 32 : signed.set == nil && signed.counter == nil
        else {
            throw AttestationError(
                .wrongPolicy, "a branch's set of fingers does not match its requirement")
        }
        return reference(
            "approval", signed.user, TPM2B(Array(signed.requirement.utf8)), signed.reuse,
            TPM2B(Array(signed.set ?? Data())))
    }

    /// A policyRef of the presence broker: `H(u16 length ‖ "org.latchkey.presence/v1/" kind ‖
    /// fields)`.
    private static func reference(_ kind: String, _ fields: any TPMMarshallable...) -> [UInt8] {
        var writer = TPMWriter(TPM2B(Array(("org.latchkey.presence/v1/" + kind).utf8)))
        for field in fields { field.marshal(into: &writer) }
        return MessageDigest(sha256: writer.bytes).bytes
    }
}

/// The public area of a P-256 key with a SHA-256 Name: an attested key, an attestation key or an
/// approval key.
struct P256Area: Sendable {
    let attributes: ObjectAttributes
    let authPolicy: [UInt8]
    let scheme: Scheme
    let name: TPMName
    let publicKey: PublicKey

    /// The reason why a public area is not such a key's.
    struct Unsuitable: Error, CustomStringConvertible {
        let description: String
    }

    /// Reads a `TPMT_PUBLIC` without trailing bytes, with the scheme ECDSA-SHA256 or NULL.
    init(_ bytes: Data) throws(Unsuitable) {
        let area: PublicArea
        do {
            area = try PublicArea(unmarshalling: bytes)
            name = try area.name
        } catch {
            throw Unsuitable(description: "it is not a TPMT_PUBLIC: \(error.reason)")
        }
        guard case .ecc(let parameters, let point) = area.detail, area.nameAlgorithm == .sha256,
            parameters.symmetric == .null, [.null, .ecdsaSHA256].contains(parameters.scheme),
            parameters.curve == .nistP256, parameters.kdf == .null
        else { throw Unsuitable(description: "it is not a P-256 key that signs SHA-256 digests") }
        guard max(point.x.count, point.y.count) <= 32,
            let representation = point.p256Representation,
            let publicKey = try? PublicKey(x963Representation: Data(representation))
        else { throw Unsuitable(description: "it is not a point on P-256") }
        attributes = area.attributes
        authPolicy = area.authPolicy
        scheme = parameters.scheme
        self.publicKey = publicKey
    }

    /// Whether the authValue authorizes everything, and no policy does.
    var opensWithAuthValueOnly: Bool {
        authPolicy.isEmpty && attributes.contains(.userWithAuth)
            && !attributes.contains(.adminWithPolicy)
    }

    /// Whether the key was created in its TPM, cannot leave it, and only signs data from outside.
    /// It may have the attributes userWithAuth, adminWithPolicy and noDA, and no unknown ones.
    var signsDataFromOutside: Bool {
        attributes.isSuperset(of: [.fixedTPM, .fixedParent, .sensitiveDataOrigin, .sign])
            && attributes.isSubset(of: [
                .fixedTPM, .fixedParent, .sensitiveDataOrigin, .sign, .userWithAuth,
                .adminWithPolicy, .noDA,
            ])
    }
}
