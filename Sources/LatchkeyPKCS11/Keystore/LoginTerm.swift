/// For how long a login may serve after the operation for which it was made.
struct LoginTerm: Hashable, Sendable {
    /// 0 ends it with the operation.
    let seconds: Int
    /// ``LoginKeeper/endings`` when the operation began: what was begun before such an end leaves no login behind.
    let endings: Int
}
