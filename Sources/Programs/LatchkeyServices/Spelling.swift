/// The search for the word that a user meant.
package enum Spelling {
    /// The word that another one abbreviates, or the nearest one; nil if none is near.
    package static func nearest(to word: String, among words: [String]) -> String? {
        if word.count > 1, let longer = words.first(where: { $0.hasPrefix(word) }) {
            return longer
        }
        let limit = max(1, word.count / 3)
        let distances = words.map { ($0, distance(Array(word), Array($0))) }
        return distances.filter { $0.1 <= limit }.min { $0.1 < $1.1 }?.0
    }

    /// The number of inserted, deleted, replaced and exchanged characters between two words.
    private static func distance(_ one: [Character], _ other: [Character]) -> Int {
        var rows = [Array(0...other.count)]
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                let replaced = rows[i][j] + (one[i] == other[j] ? 0 : 1)
                var least = min(rows[i][j + 1] + 1, row[j] + 1, replaced)
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] {
                    least = min(least, rows[i - 1][j - 1] + 1)
                }
                row.append(least)
            }
            rows.append(row)
        }
        return rows[one.count][other.count]
    }
}
