/// Who is logged in, as the token itself says (`C_GetSessionInfo`).
enum LoginState: Hashable, Sendable {
    case nobody, user, securityOfficer
}
