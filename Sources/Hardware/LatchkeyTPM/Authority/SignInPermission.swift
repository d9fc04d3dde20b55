/// What a user may sign in to the machine with: a finger, and with a PIN if PAM accepted the login
/// password while that PIN was set, and the password opened a secret that is sealed under it.
package struct SignInPermission: Hashable, Sendable {
    package let hasPIN: Bool

    /// Whether a permission is enough for a record's secret, which the PIN opens or a finger alone.
    ///
    /// - Parameter permission: nil if the user may not sign in.
    package static func allows(_ permission: SignInPermission?, opensWithPIN: Bool) -> Bool {
        opensWithPIN ? permission?.hasPIN == true : permission != nil
    }
}

extension ApprovalAuthority {
    /// Whether a user can sign in, as the broker recorded it. It uses no command of the TPM.
    package func signIn(of user: UInt32, named name: String) -> SignInPermission? {
        let record = store.user(user)
        guard let signIn = record.signIn, signIn.name == name else { return nil }
        return SignInPermission(hasPIN: signIn.pin != nil && signIn.pin == record.pin?.publicArea)
    }

    /// The name of the account whose sign-in is allowed.
    package func nameOfSignIn(of user: UInt32) -> String? { store.user(user).signIn?.name }
}
