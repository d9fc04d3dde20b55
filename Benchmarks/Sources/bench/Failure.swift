/// A measurement that could not be made.
struct Failure: Error, CustomStringConvertible {
    let reason: String

    var description: String { reason }
}
