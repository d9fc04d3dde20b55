#if Certificates || Testing || Programs
    internal import FoundationEssentials
    internal import Latchkey
    internal import LatchkeyJOSE

    extension PendingActivation {
        /// The members that another server needs to end the activation. It contains only a digest
        /// of the secret.
        private struct State: Codable {
            let attestationKey: Data
            let endorsementKeyDigest: Data
            let expiresAt: Double
            let isSimulated: Bool
            let tpm: TPMAttributes
            let secretDigest: Data
        }

        /// The activation as JSON, for a database that several servers share. Read it with a
        /// statement that deletes it, because copies do not know of each other's use.
        package var state: String {
            get throws {
                try CanonicalJSON.text(
                    State(
                        attestationKey: attestationKey.x963Representation,
                        endorsementKeyDigest: endorsementKeyDigest,
                        expiresAt: expiresAt.timeIntervalSince1970, isSimulated: isSimulated,
                        tpm: tpm,
                        secretDigest: Data(secretDigest)))
            }
        }

        /// Reads ``state``.
        package convenience init(state: String) throws {
            let state = try CanonicalJSON.decode(State.self, from: state)
            self.init(
                secretDigest: Array(state.secretDigest),
                attestationKey: try PublicKey(x963Representation: state.attestationKey),
                endorsementKeyDigest: state.endorsementKeyDigest, isSimulated: state.isSimulated,
                tpm: state.tpm,
                expiresAt: Date(timeIntervalSince1970: state.expiresAt))
        }
    }
#endif
