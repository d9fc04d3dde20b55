import Foundation

/// Formats numbers.
enum Decimals {
    static func format(_ number: Double, _ places: Int) -> String {
        String(format: "%.\(places)f", number)
    }

    /// A power of ten without trailing zeros, for an axis.
    static func mark(_ number: Double) -> String {
        number >= 1000 ? "\(Int(number / 1000))k" : String(format: "%g", number)
    }
}

extension String {
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - count))
    }
}
