internal import Glibc
package import Latchkey

/// The check of root before it creates or replaces files of a user: the user's programs could not
/// use them.
package enum OwnPlace {
    /// Checks a file or directory that may not exist, and the nearest directory on the way to it that
    /// exists. Permits each place to users other than root.
    ///
    /// - Throws: ``KeystoreError`` with code `unavailable` if one of them belongs to another user.
    package static func check(_ path: String) throws(KeystoreError) {
        guard geteuid() == 0 else { return }
        var place = path.hasPrefix("/") ? path : "./\(path)"
        var status = stat()
        if stat(place, &status) == 0, status.st_uid != 0 { throw refusal(place, status.st_uid) }
        repeat {
            guard let slash = place.lastIndex(of: "/") else { return }
            place = slash == place.startIndex ? "/" : String(place[..<slash])
        } while stat(place, &status) != 0 && place != "/"
        guard status.st_uid == 0 else { throw refusal(place, status.st_uid) }
    }

    private static func refusal(_ place: String, _ owner: uid_t) -> KeystoreError {
        let name = getpwuid(owner).map { String(cString: $0.pointee.pw_name) } ?? "\(owner)"
        return KeystoreError(
            code: .unavailable,
            reason:
                "\(place) belongs to another user (\(name)), who could not use the files of root in it",
            recovery: "Run the command as ‘\(name)’, without sudo. Nothing was changed.")
    }
}
