internal import Glibc

/// The accounts of this machine, from all of its databases (getpwnam(3)).
package enum Account {
    /// - Returns: nil if the system knows no name, as for subordinate user IDs (subuid(5)).
    package static func name(of user: UInt32) -> String? {
        try? find {
            getpwuid_r(user, $0, $1, $2, $3)
        } read: { entry in
            entry.pw_name.map { String(cString: $0) }
        }
    }

    /// - Returns: nil without such an account.
    /// - Throws: `SystemError` if a database does not answer.
    package static func userID(named name: String) throws(SystemError) -> UInt32? {
        try find {
            getpwnam_r(name, $0, $1, $2, $3)
        } read: {
            $0.pw_uid
        }
    }

    private static func find<R>(
        _ search: (
            UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
            UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
        ) -> Int32, read: (passwd) -> R?
    ) throws(SystemError) -> R? {
        var buffer = [CChar](repeating: 0, count: 16384)
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        let result = buffer.withUnsafeMutableBufferPointer { buffer -> Result<R?, SystemError> in
            guard let start = buffer.baseAddress else { return .success(nil) }
            let status = search(&entry, start, buffer.count, &found)
            guard found != nil else {
                return status == 0 ? .success(nil) : .failure(SystemError(status))
            }
            return .success(read(entry))
        }
        return try result.get()
    }
}
