/// Keeps challenges between giving them out and taking them back.
public protocol ChallengeStore: Sendable {
    /// Makes and keeps a new challenge.
    func issue(_ purpose: ChallengePurpose) async throws -> Challenge

    /// Takes a challenge back. Of any number of calls with the same token, at most one answers true.
    ///
    /// - Returns: Whether the token was given out for this purpose, has not expired, and has not been taken back. A
    ///   token that is offered for another purpose is used up all the same.
    func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool
}
