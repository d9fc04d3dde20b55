/// What this is a version of: all programs say it, and packages are named by it.
package enum Release {
    /// As `CHANGELOG.md` begins (Semantic Versioning 2.0.0).
    package static let version = "0.1.0"
}
