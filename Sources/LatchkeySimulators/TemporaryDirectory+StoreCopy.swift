internal import FoundationEssentials

extension TemporaryDirectory {
    /// A copy of the store in this directory, as somebody makes one who may read its files: the database and its log, and
    /// none of its locks.
    ///
    /// - Throws: When a file can't be copied.
    public func copyOfStore(profile: String = "default") throws -> TemporaryDirectory {
        let copy = try TemporaryDirectory()
        try FileManager.default.createDirectory(
            atPath: copy.path(of: profile), withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        for name in try FileManager.default.contentsOfDirectory(atPath: path(of: profile))
        where name.hasPrefix("latchkey.sqlite") && !name.hasSuffix(".lock") {
            try FileManager.default.copyItem(
                atPath: path(of: "\(profile)/\(name)"), toPath: copy.path(of: "\(profile)/\(name)"))
        }
        return copy
    }
}
