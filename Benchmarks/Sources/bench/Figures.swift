/// A table of figures that have no floor.
struct Figures: Sendable {
    let title: String
    let columns: [String]
    var rows: [[String]] = []
    /// The conditions of the measurement, in sentences.
    var note = ""
}
