import Latchkey

/// The demo's person: always there, with one PIN, which is shown because it protects nothing.
struct DemoPresence: PresenceAuthority {
    private static let pin = "258025"

    let narrator: Narrator

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let wanted =
            switch request.purpose {
            case .current: "your PIN"
            case .new: "a new PIN"
            case .securityOfficer: "the token's security officer PIN"
            case .unblocking: "the token's unblocking code (PUK)"
            }
        let left = request.attemptsLeft.map { "; \($0) attempts are left" } ?? ""
        try narrator.detail("Latchkey asks for \(wanted) to \(request.context.reason)\(left).")
        try narrator.detail("The demo types \(Self.pin), as you would at a terminal.")
        return .pin(try PIN(Self.pin))
    }
}
