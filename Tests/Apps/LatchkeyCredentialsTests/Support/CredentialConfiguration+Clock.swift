import LatchkeyCredentials
import LatchkeyTestSupport

extension CredentialConfiguration {
    init(
        copiedClaims: CopiedClaims = .all, additionalOrigins: Set<String> = [],
        clock: any CredentialClock
    ) {
        self.init(copiedClaims: copiedClaims, additionalOrigins: additionalOrigins)
        self.clock = clock
    }
}

extension SettableClock: CredentialClock {}
