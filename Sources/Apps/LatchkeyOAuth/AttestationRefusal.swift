package import Latchkey

/// The least that a server requires of a new key.
package enum AttestationLevel: String, Sendable {
    /// Nothing.
    case none
    /// A key in hardware.
    case hardware
    /// A key in hardware that requires user verification or a touch.
    case presence
    /// A key in a TPM that only a finger opens.
    case finger
    /// A YubiKey that requires a touch for each use.
    case touch
}

/// Why a machine cannot prove what a server requires, or why the server does not accept the proof.
package enum AttestationRefusal: Error, Hashable, Sendable {
    /// The server requires a proof, and got none.
    case required
    /// The server refused the proof: its `reason`.
    case refused(String)
    /// The server's requirement is not known here.
    case unknownRequirement(String)
    /// The policy is weaker than the requirement.
    case weakPolicy(AttestationLevel)
    /// The server does not verify attestations of this kind of hardware.
    case otherHardware(AttestationLevel)
    /// The hardware cannot prove anything.
    case noProof(String)
    /// The user or the program did not agree to send the proof.
    case notAgreed

    /// The cause, as a clause, and the next step, as a sentence.
    package var explanation: (reason: String, recovery: Recovery) {
        switch self {
        case .required:
            return (
                "the server requires a proof that the key is in hardware, and this login has none",
                Recovery(
                    "Log in in the browser and replace the key, because a new one has a proof: disable biometric login and "
                        + "enable it again, or revoke the device's enrolment and enrol it again.",
                    .login, .disable, .enable)
            )
        case .refused(let reason): return Self.refused(reason)
        case .unknownRequirement(let name):
            return (
                "the server requires the proof ‘\(String(oneLine: name, limit: 64))’, which this version does not know",
                "Update Latchkey."
            )
        case .weakPolicy(.finger):
            return ("this server requires a key that only a finger opens", Self.useFinger)
        case .weakPolicy:
            return (
                "this server requires a key with user verification",
                Recovery("Use another policy, for example ‘pin’.", .choosePolicy)
            )
        case .otherHardware(.finger):
            return (
                "this server requires a key in a TPM that only a finger opens",
                "Use the machine's TPM."
            )
        case .otherHardware(.touch):
            return (
                "this server requires a YubiKey with a touch for each use",
                Recovery("Use a YubiKey.", .chooseToken)
            )
        case .otherHardware:
            return (
                "this server does not verify proofs of this kind of hardware",
                "Use other hardware, or ask the server's operator to add its manufacturer."
            )
        case .noProof(let why):
            return (
                "this server requires a proof that the key is in hardware, and \(why)",
                Self.useOtherHardware
            )
        case .notAgreed:
            return (
                "this server requires a proof about the hardware, and sending it was not agreed to",
                "The proof contains data that identify the machine. In a program, show them with ‘disclosesHardware’."
            )
        }
    }

    private static let useFinger = Recovery("Use the policy ‘biometry-any’.", .requireFinger)
    private static let useOtherHardware: Recovery =
        "Use another TPM or a YubiKey. A software TPM needs a new state: "
        + "‘swtpm/stop --remove’, which deletes its keys, then ‘swtpm/provision’ and ‘swtpm/start’."
    private static let showCertificate = Recovery(
        "Ask the server's operator about the TPM's certificate.", .showAttestation)

    private static func refused(_ reason: String) -> (String, Recovery) {
        switch reason {
        case "untrustedEndorsement":
            return ("the server does not know this TPM's manufacturer", showCertificate)
        case "chainTooLong":
            return (
                "more certificates are between this hardware and its manufacturer's root than the server accepts",
                "Ask the server's operator to add the issuer of the hardware's certificate as a root."
            )
        case "unsupportedCertificate":
            return (
                "a certificate of this hardware's manufacturer uses an algorithm or an extension that the server does not support",
                "Ask the server's operator; the server's log names the certificate."
            )
        case "wrongEndorsement":
            return ("the server cannot use this TPM's certificate", showCertificate)
        case "certificateExpired":
            return (
                "a certificate in the proof is not valid now",
                "Check the clock. " + showCertificate
            )
        case "simulated":
            return (
                "the server does not accept simulated hardware", "Use a hardware TPM or a YubiKey."
            )
        case "unknownApprovalKey":
            return (
                "the server does not know this machine's presence broker",
                Recovery("An administrator must enrol the presence broker.", .enrolBroker)
            )
        case "insufficientPresence":
            return ("the key's user verification is weaker than this server requires", useFinger)
        case "untrustedAttestationKey":
            return (
                "the server does not accept the certificate of this TPM's attestation key",
                Recovery("Forget the attestation key, then try again.", .forgetAttestation)
            )
        case "wrongChain":
            return (
                "the server does not know this token's manufacturer",
                "Ask the server's operator to add its root certificate."
            )
        default:
            return (
                "the server does not accept the proof about the hardware (\(String(oneLine: reason, limit: 64)))",
                "Ask the server's operator, and name this reason."
            )
        }
    }
}

extension ServerRefusal {
    /// The refusal, if an attestation is the cause.
    package var attestationRefusal: AttestationRefusal? {
        switch oauthError?.error {
        case "attestation_required": .required
        case "attestation_refused": .refused(oauthError?.reason ?? "no reason")
        case "invalid_grant" where oauthError?.description == Self.unacceptableAttestation:
            .refused("malformed")
        default: nil
        }
    }

    /// The description of `invalid_grant` for a malformed or forged attestation, which does not end
    /// the session.
    private static let unacceptableAttestation = "the attestation is not accepted"
}

/// What a server learns before this machine proves to it that a key is in hardware.
public struct AttestationDisclosure: Hashable, Sendable {
    /// The server's address.
    public let server: String
    /// The text for the user, in sentences.
    public let text: String

    /// A TPM's activation. Later proofs for the same server reveal less.
    static func tpm(_ server: String) -> AttestationDisclosure {
        AttestationDisclosure(
            server: server,
            text:
                "\(server) requires a proof that new keys are in hardware. It gets the TPM's endorsement certificate, which "
                + "identifies this machine permanently and names its manufacturer, and for each key the way to unlock it. A "
                + "key that a finger opens also shows your user id and the key of this machine's presence broker."
        )
    }

    /// A token's attestation.
    static func token(_ server: String) -> AttestationDisclosure {
        AttestationDisclosure(
            server: server,
            text:
                "\(server) requires a proof that new keys are in hardware. It gets the token's certificates with its model "
                + "and serial number, which identify the token permanently.")
    }
}
