/// A class key that somebody proved to be entitled to, for a short while.
struct ProvenClass {
    /// How long a proof is good for.
    static let life: Duration = .seconds(60)

    private let opened: ClassKey
    private let deadline = ContinuousClock.now + life

    init(_ key: ClassKey) { opened = key }

    /// nil when the proof is too old.
    var key: ClassKey? { ContinuousClock.now < deadline ? opened : nil }
}
