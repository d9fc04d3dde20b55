/// The version of the programs and packages.
package enum Release {
    /// The newest version in `CHANGELOG.md` (Semantic Versioning 2.0.0).
    package static let version = "0.1.0"
}
