/// The failure of a measurement.
struct Failure: Error, CustomStringConvertible {
    let reason: String

    var description: String { reason }
}
