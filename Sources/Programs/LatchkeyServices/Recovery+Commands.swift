package import Latchkey

extension Recovery {
    /// The sentences, followed by the command or option of each action.
    package var withCommands: String {
        ([sentences] + actions.map(\.command)).joined(separator: " ")
    }
}

extension PackageError {
    /// The next step for a user of this package's programs.
    package var advice: String { recoveryAction.withCommands }
}

extension Recovery.Action {
    /// A sentence that names the command or option of this package's programs, or the command of
    /// another service.
    package var command: String {
        switch self {
        case .allowShortPIN: "To use a short PIN, pass --allow-short-pin."
        case .choosePINSource: "Set it with --pin-source or LATCHKEY_PIN_SOURCE."
        case .chooseTPM:
            "Set it with --tcti or LATCHKEY_TCTI; for the services too, with ‘latchkey config set tcti TCTI’. For a trial, ‘swtpm/start’ in Latchkey's sources starts a software TPM and prints its TCTI."
        case .chooseToken: "Set it with --token or LATCHKEY_TOKEN."
        case .chooseHardware:
            "Set a token with --token; for the TPM, remove the token from the settings: ‘latchkey config list’ shows where it is set. Set the container with --container."
        case .diagnose: "‘latchkey doctor’ shows the state of the hardware."
        case .reportDiagnosis: "Run ‘latchkey doctor’ and report its output."
        case .endLockout: "‘latchkey doctor’ names the command that ends the lockout earlier."
        case .resetStore:
            "With --store DIR, a command uses another store, and this one stays. ‘latchkey store reset’ archives this one and empties it."
        case .listTokens:
            "‘latchkey token list’ shows all tokens, and all modules that cannot be used."
        case .initializeToken: "Run ‘latchkey token init --label NAME’."
        case .listTokenKeys: "‘latchkey token keys’ lists the keys."
        case .chooseSlot: "Set it with --slot, for example 9a, 9c or 82."
        case .eraseToken: "Pass --erase to delete everything on it."
        case .useModuleHere: "Pass --token-isolation never."
        case .changeTokenPIN: "Run ‘latchkey token pin’."
        case .initializeTokenPIN: "Run ‘latchkey token pin --init’."
        case .unblockPIN: "Run ‘latchkey token pin --unblock’."
        case .enterPINHere: "Pass --token-login pin."
        case .enterPINAtReader: "Pass --token-login reader."
        case .forgetKey: "‘latchkey key delete ID --forget’ removes the entry."
        case .choosePolicy: "To choose another policy, use --policy, for example --policy pin."
        case .requireFinger:
            "Run ‘latchkey enable --policy biometry-any’; for the locker, use the same option."
        case .listSSHKeys: "Run ‘latchkey ssh list’."
        case .offerWithoutVerification: "‘latchkey ssh add --without-verification’ permits it."
        case .restartReader:
            "If the reader worked before the machine slept, run ‘sudo systemctl restart fprintd’."
        case .listPasskeys: "Run ‘latchkey passkey list’."
        case .deletePasskey: "Run ‘latchkey passkey delete’ with its ID."
        case .storeVaultWithPIN: "For example, run ‘latchkey vault store NAME --biometrics’."
        case .omitShares: "Pass --without-shares."
        case .showAttestation: "‘latchkey attestation show’ shows the certificate."
        case .chooseIssuer: "Set it with --issuer; ‘latchkey attestation show’ lists the servers."
        case .enrolAttestation: "Run ‘latchkey attestation enrol’ with its address as --endpoint."
        case .forgetAttestation: "Run ‘latchkey attestation forget’."
        case .enrolBroker: "Run ‘sudo latchkey broker enrol’."
        case .chooseServer: "Set them with --endpoint and --client-id."
        case .login: "Run ‘latchkey login’."
        case .forwardLogin:
            "Run ‘ssh -L 8400:127.0.0.1:8400’ on the computer of your browser, with the same destination as this session, and ‘latchkey login --callback-port 8400’ here."
        case .authenticate: "‘latchkey authenticate’ logs in with it."
        case .enable: "‘latchkey enable’ enables biometric login."
        case .disable: "‘latchkey disable’ disables biometric login."
        case .replaceLoginKey:
            "To replace a login's key, run ‘latchkey login’, then ‘latchkey disable’ and ‘latchkey enable’."
        case .forceLogout:
            "‘latchkey logout --force’ removes the stored login without contacting a server."
        case .forceDisable: "‘latchkey disable --force’ succeeds without contacting the server."
        }
    }
}
