internal import FoundationEssentials
internal import GRDB

/// The place of one record in the index of names and values, from which ``RecordQuery`` finds records.
///
/// The index only helps to find: it is not authenticated, and a record that it brings up is looked at itself.
struct AttributeIndex {
    let container: String
    let id: String

    /// Takes the record out under its old attributes and puts it in under the new ones; each as the row's text.
    func replace(_ database: Database, _ old: String?, with new: String?) throws {
        let (old, new) = (Self.entries(old), Self.entries(new))
        for (name, value) in old where new[name] != value {
            try database.execute(
                sql: "DELETE FROM recordAttribute WHERE container = ? AND name = ? AND value = ? AND id = ?",
                arguments: [container, name, value, id])
        }
        for (name, value) in new where old[name] != value {
            try database.execute(
                sql: "INSERT OR IGNORE INTO recordAttribute (container, name, value, id) VALUES (?, ?, ?, ?)",
                arguments: [container, name, value, id])
        }
    }

    /// Attributes that can't be read are in no index.
    private static func entries(_ text: String?) -> [String: String] {
        guard let text, text != "{}" else { return [:] }
        return (try? JSONDecoder().decode([String: String].self, from: Data(text.utf8))) ?? [:]
    }
}
