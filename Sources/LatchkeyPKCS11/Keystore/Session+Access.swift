internal import Latchkey

extension Session {
    /// Runs `body` with access to private keys.
    ///
    /// Before a proof is shown everybody is logged out: a token that takes the user for logged in looks at no PIN. What
    /// comes after a failed logout is safe for the same reason: nobody relies on a login that no keeper vouches for.
    ///
    /// - Parameter body: Gets the proof for the keys that want it at each use.
    func with<R>(
        _ access: TokenAccess, on token: Token, _ login: LoginKeeper,
        _ body: (LoginProof?) throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        switch access {
        case .open: return try body(nil)
        case .kept(let seconds):
            guard login.isFresh(within: seconds), try loginState() == .user else {
                throw CryptokiError(.loginNeeded, reason: "the login has ended")
            }
            return try body(nil)
        case .login(let proof, let term):
            login.forget()
            try logout()
            try self.login(.user, with: proof)
            let result: R
            do {
                result = try body(proof)
            } catch {
                try? logout()
                throw error
            }
            if !login.keep(for: term, on: token) { try? logout() }
            return result
        }
    }

    /// Runs `body` as the security officer, who is logged out afterwards.
    func asOfficer<R>(
        _ proof: LoginProof, _ login: LoginKeeper, _ body: () throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        login.forget()
        try logout()
        try self.login(.securityOfficer, with: proof)
        defer { try? logout() }
        return try body()
    }
}
