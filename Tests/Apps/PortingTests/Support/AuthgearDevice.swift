import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyTesting

extension PortingDevice {
    /// A newly started program: a container over the device's store.
    ///
    /// - Parameters:
    ///   - pins: The PINs that the user enters.
    ///   - number: The number of the user who uses the browser.
    func start(
        name: String = "default", pins: [String] = Array(repeating: PortingDevice.pin, count: 8),
        user number: Int = 0, browser: UserBrowser? = nil, tokenStorage: TokenStorage = .persistent
    ) async throws -> Container {
        try Container(
            ContainerConfiguration(
                endpoint: server.endpoint, clientID: server.clientID, tokenStorage: tokenStorage,
                policy: .pin),
            records: try await records(name),
            presence: ScriptedPresence(pins.map(ScriptedPresence.Step.pin)),
            browser: browser ?? UserBrowser(server.users[number]), transport: network)
    }
}

// Errors compare by their code.

func login(_ code: LoginErrorCode) -> LoginError {
    LoginError(operation: "", code: code, reason: "", recovery: "")
}

func keystore(_ code: CommonErrorCode) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}
