import FoundationEssentials
import Latchkey

/// Stores a note that only this machine can read, and reads it.
func keep(_ note: String, in records: RecordContainer) async throws -> String? {
    let prompt = PromptContext(reason: "keep a note")
    let record = Record(id: "note", kind: "example.note", attributes: ["title": "shopping"])
    try await records.apply(
        [.put(record, payload: SecretBytes(note.utf8), ifGeneration: nil)], for: prompt)
    let stored = try await records.read("note", for: prompt)
    return stored?.payload?.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
}
