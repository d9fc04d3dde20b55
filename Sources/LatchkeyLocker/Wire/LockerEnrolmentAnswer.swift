/// What the server says to an enrolment.
struct LockerEnrolmentAnswer: Decodable, Sendable {
    let enrolmentID: String
    /// nil where the server keeps none.
    let levelShares: LevelShares?

    private enum CodingKeys: String, CodingKey {
        case enrolmentID = "enrolment_id"
        case levelShares = "level_shares"
    }
}
