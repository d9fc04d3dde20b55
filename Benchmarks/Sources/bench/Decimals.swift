import Foundation

/// Numbers as they are printed.
enum Decimals {
    static func format(_ number: Double, _ places: Int) -> String {
        String(format: "%.\(places)f", number)
    }

    /// A multiple of ten without zeros behind the point, for a scale.
    static func mark(_ number: Double) -> String {
        number >= 1000 ? "\(Int(number / 1000))k" : String(format: "%g", number)
    }
}

extension String {
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - count))
    }
}
