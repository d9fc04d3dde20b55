internal import CPKCS11

extension Token {
    /// The same token in the same module, loaded into this process, where key agreement does not pass to the process that
    /// the module runs in. nil where it does, or where it was asked for that the module stays in its process.
    ///
    /// p11-kit before 0.25 can't carry the parameter of `CKM_ECDH1_DERIVE`. Of an isolated module therefore the
    /// agreement alone is done here, under the same deadlines: one that hangs makes later agreements fail at once
    /// (`wedged`), and nothing else. To the card the two are two programs: what the one does ends the other's session
    /// and login, which the recovery ladder and a new proof mend.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `tokenAmbiguous`, `module`, `timedOut`, `wedged`, `cancelled`.
    func agreementTwin() async throws(CryptokiError) -> Token? {
        guard module.isIsolated, module.options.isolation == .automatic, module.options.environment.isEmpty else {
            return nil
        }
        guard try await !perform({ (session) throws(CryptokiError) in try session.carriesAgreement() }) else {
            return nil
        }
        return try await here()
    }

    /// The same token in the same module, loaded into this process; itself where it is that already.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `tokenAmbiguous`, `module`, `timedOut`, `wedged`, `cancelled`.
    func here() async throws(CryptokiError) -> Token {
        guard module.isIsolated else { return self }
        var options = module.options
        options.isolation = .never
        let identity = TokenIdentity(information, in: profile)
        let module = try await Module.load(module.path, options: options)
        let twins = try await module.tokens(options: options) { [profile] in
            TokenIdentity($0, in: profile) == identity
        }
        guard let twin = twins.first else {
            throw CryptokiError(.tokenAbsent, reason: "the token \(identity) is not in any reader")
        }
        guard twins.count == 1 else {
            throw CryptokiError(.tokenAmbiguous, reason: "there is more than one token \(identity)")
        }
        return twin
    }
}

extension Session {
    /// Whether key agreement reaches the module. Found out once, with a key that can't be: what carries the call looks
    /// at the mechanism before anybody looks at the key.
    func carriesAgreement() throws(CryptokiError) -> Bool {
        if let known = call.module.carriesAgreement { return known }
        var noPoint = [UInt8](repeating: 0, count: 65)
        let value = try noPoint.withUnsafeMutableBufferPointer { point throws(CryptokiError) in
            try deriveKey(ObjectHandle(rawValue: 0), point, AttributeTemplate()).value
        }
        let carries = value != .mechanismInvalid && value != .functionNotSupported
        call.module.note(carriesAgreement: carries)
        return carries
    }
}
