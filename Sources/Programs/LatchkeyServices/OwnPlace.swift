internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The check of root before it creates or replaces files of a user: the user's programs could not
/// use them.
package enum OwnPlace {
    /// Checks a file or directory that may not exist, and each directory and symbolic link on the way
    /// to it: their owner could let root change another file. Permits each place to users other than
    /// root.
    ///
    /// - Parameter path: The path as it is configured, with its links.
    /// - Throws: ``KeystoreError`` with code `unavailable` if one of them belongs to another user.
    package static func check(_ path: String) throws(KeystoreError) {
        guard geteuid() == 0 else { return }
        guard let (place, owner) = try TrustedFile.placeOfUser(onWayTo: path) else { return }
        let name = Account.name(of: owner) ?? "\(owner)"
        throw KeystoreError(
            code: .unavailable,
            reason:
                "\(place) belongs to another user (\(name)), who could not use the files of root in it",
            recovery: "Run the command as ‘\(name)’, without sudo. Nothing was changed.")
    }
}
