/// Who logs in: `CKU_USER` or `CKU_SO`.
enum LoginRole: UInt, Hashable, Sendable {
    case securityOfficer = 0
    case user = 1
}
