internal import Latchkey

/// An enrolment that was destroyed here, or perhaps never finished, and of which the server may not know that. It holds no
/// secret: the statement can do nothing but revoke.
struct Tombstone: Hashable, Sendable {
    let enrolmentID: String
    let issuer: String
    /// The `revoke` assertion.
    let statement: String

    static let kind: RecordKind = "locker.tombstone"

    var id: RecordID { RecordID(rawValue: "locker.tombstone.\(enrolmentID)") }

    var record: Record {
        Record(
            id: id, kind: Self.kind,
            attributes: ["enrolment": enrolmentID, "issuer": issuer, "statement": statement])
    }

    init(enrolmentID: String, issuer: String, statement: String) {
        self.enrolmentID = enrolmentID
        self.issuer = issuer
        self.statement = statement
    }

    init?(_ record: Record) {
        guard let id = record.attributes["enrolment"], EnrolmentID.isValid(id),
            let issuer = record.attributes["issuer"], let statement = record.attributes["statement"]
        else { return nil }
        self.init(enrolmentID: id, issuer: issuer, statement: statement)
    }
}
