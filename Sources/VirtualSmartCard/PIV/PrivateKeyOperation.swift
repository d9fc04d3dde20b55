/// A use of a private key, allowed but for a touch.
struct PrivateKeyOperation {
    enum Input {
        /// Sign this digest.
        case digest([UInt8])
        /// Agree on a secret with the owner of this point.
        case point([UInt8])
    }

    let key: EllipticCurveKey
    let input: Input

    func callAsFunction() throws(StatusWord) -> [UInt8] {
        switch input {
        case .digest(let digest): try key.sign(digest)
        case .point(let point): try key.agree(with: point)
        }
    }
}
