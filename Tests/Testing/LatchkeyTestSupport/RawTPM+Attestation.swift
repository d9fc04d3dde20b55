internal import Crypto
package import Foundation
internal import Latchkey
package import TPM2

/// Activation, and keys that an approval by a presence broker's key opens.
extension RawTPM {
    /// The endorsement key on P-384 that `swtpm_setup` makes persistent (template H-3).
    private static let endorsementKey = TPMHandle(rawValue: 0x8101_0016)
    private static let endorsementIndex = TPMHandle(rawValue: 0x01c0_0016)

    /// The certificate of the endorsement key, DER.
    package var endorsementCertificate: Data {
        get throws(TPMError) {
            Data(try tpm.nvRead(tpm.execute(NVReadPublic(Self.endorsementIndex))))
        }
    }

    /// `TPM2_ActivateCredential` for a loaded attestation key.
    ///
    /// - Returns: The secret.
    package func activate(_ object: TPMObject, blob: Data, secret: Data) throws(TPMError) -> Data {
        Data(
            try tpm.execute(
                ActivateCredential(
                    Array(blob), secret: Array(secret), for: object,
                    with: tpm.execute(ReadPublic(Self.endorsementKey)))
            ).bytes)
    }

    /// A branch `PolicySigned` by an approval key, as the presence broker's clients declare it.
    package struct Finger {
        package let approvalKey: Key
        /// The JSON of the branch.
        package let json: String
        package let digest: PolicyDigest
        fileprivate let reference: [UInt8]

        package init(_ approvalKey: Key, user: UInt32 = 1000) throws(TPMError) {
            self.approvalKey = approvalKey
            let fields = TPMWriter(
                TPM2B(Array("org.latchkey.presence/v1/approval".utf8)), user,
                TPM2B(Array("biometry-any".utf8)),
                UInt16(0), TPM2B())
            reference = Array(SHA256.hash(data: fields.bytes))
            digest = PolicyDigest().signed(by: try approvalKey.name, policyRef: reference)
            json =
                #"{"type":"signed","key":"\#(Base64URL.encode(approvalKey.area.marshalled))","user":\#(user),"#
                + #""requirement":"biometry-any","reuse":0}"#
        }

        /// The branches of a key that only an approval opens.
        package var branches: [PolicyDigest] { [digest] }

        /// The member `presence` of a statement about such a key.
        package var presence: String { #"{"version":1,"branches":[\#(json)]}"# }
    }

    /// The attributes of a key that only its policy opens, without the ones that show where it was
    /// created.
    package static let gated: ObjectAttributes = [.noDA]
}
