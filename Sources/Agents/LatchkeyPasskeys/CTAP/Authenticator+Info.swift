internal import Latchkey

extension Authenticator {
    /// The answer to getInfo, or to getUVRetries.
    func answer(_ inspection: PasskeyInspection, _ state: PasskeyState) -> [CBORKey: CBORValue] {
        switch inspection {
        case .info: info(state)
        case .retries: [5: .integer(state.attemptsLeft ?? (state.canVerify ? 3 : 0))]
        }
    }

    /// The answer to `authenticatorGetInfo`. Without `pinUvAuthToken` and `clientPin`, clients
    /// request built-in verification with each operation.
    private func info(_ state: PasskeyState) -> [CBORKey: CBORValue] {
        [
            0x01: .array([.text("FIDO_2_0")]),
            0x02: .array([.text("credProtect"), .text("hmac-secret")]),
            0x03: .bytes(aaguid.bytes),
            0x04: .map([
                "rk": .boolean(true), "up": .boolean(true), "uv": .boolean(state.canVerify),
            ]),
            0x05: .integer(CTAPHIDDevice.maximumRequestBytes),
            0x06: .array([.integer(2), .integer(1)]),
            0x07: .integer(16),
            0x08: .integer(64),
            0x09: .array([.text("usb")]),
            0x0A: .array([.map(["alg": .integer(-7), "type": .text("public-key")])]),
            0x0E: .integer(firmwareVersion),
            // Fingerprint and passcode, both internal.
            0x12: .integer(6),
            0x14: .integer(max(0, PasskeyStore.maximumCount - state.count)),
            0x16: .array([.text("packed"), .text("none")]),
        ]
    }
}
