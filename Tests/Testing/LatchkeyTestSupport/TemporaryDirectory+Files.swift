internal import CoreFoundation
internal import FoundationEssentials
internal import Glibc
package import LatchkeySimulators
internal import Testing

extension TemporaryDirectory {
    /// Copies the store in this directory as an attacker who can read its files would: the database
    /// and its write-ahead log, without the lock files.
    ///
    /// - Throws: The error of the last copy if 100 copies fail.
    package func copyOfStore(profile: String = "default") throws -> TemporaryDirectory {
        let copy = try TemporaryDirectory()
        try FileManager.default.createDirectory(
            atPath: copy.path(of: profile), withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        // A connection that closes in the background removes the write-ahead log. So a copy is
        // complete only if the files are the same before and after it.
        var copyError: (any Error)?
        for _ in 0..<100 {
            let files = try storeFiles(of: profile)
            do {
                for name in files.keys {
                    try FileManager.default.copyItem(
                        atPath: path(of: "\(profile)/\(name)"),
                        toPath: copy.path(of: "\(profile)/\(name)"))
                }
                if try storeFiles(of: profile) == files { return copy }
            } catch {
                copyError = error
            }
            for name in files.keys {
                try? FileManager.default.removeItem(atPath: copy.path(of: "\(profile)/\(name)"))
            }
            usleep(10_000)
        }
        throw try #require(copyError, "the store changed during each of 100 copies")
    }

    /// The identity, the size in bytes and the time of the last change of each file of a store, by
    /// name, without the lock files.
    private func storeFiles(of profile: String) throws -> [String: [Int]] {
        var files: [String: [Int]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: path(of: profile))
        where name.hasPrefix("latchkey.sqlite") && !name.hasSuffix(".lock") {
            var status = stat()
            guard stat(path(of: "\(profile)/\(name)"), &status) == 0 else { continue }
            files[name] = [
                Int(status.st_ino), Int(status.st_size), status.st_mtim.tv_sec,
                status.st_mtim.tv_nsec,
                status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
            ]
        }
        return files
    }

    /// Copies this process's descriptors of the lock files in the directory. A child process has
    /// such copies until its `exec`. The caller closes the copies.
    package func copiesOfLockDescriptors() throws -> [Int32] {
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            Int32($0)
        }
        return open.filter { descriptor in
            let file = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\(descriptor)")
            return file.map { $0.hasPrefix("\(path)/") && $0.hasSuffix(".lock") } ?? false
        }.map { fcntl($0, F_DUPFD_CLOEXEC, 0) }
    }

    /// Writes an executable script into the directory.
    ///
    /// A separate process writes it. Linux does not execute a file that is open for writing, and a
    /// child process that starts while this process has the file open inherits the open file until
    /// it calls exec.
    ///
    /// - Parameter text: The script, with its first line `#!…`, at most 100 KiB.
    /// - Returns: The path of the script.
    /// - Throws: An issue of the test if the script cannot be written.
    @discardableResult
    package func makeScript(_ name: String, _ text: String) throws -> String {
        let path = path(of: name)
        try Self.shell(#"printf %s "$1" >"$2" && chmod 755 "$2""#, text, path)
        return path
    }

    /// Copies a program to a file that other users can execute, in the same way.
    ///
    /// - Returns: The path of the copy.
    @discardableResult
    package func copyProgram(_ program: String, as name: String) throws -> String {
        let path = path(of: name)
        try Self.shell(#"cp "$1" "$2" && chmod 755 "$2""#, program, path)
        return path
    }

    private static func shell(_ command: String, _ source: String, _ path: String) throws {
        var arguments =
            ["sh", "-c", command, "sh", source, path].map {
                (argument: String) in strdup(argument)
            } + [nil]
        defer { for argument in arguments { free(argument) } }
        var environment: [UnsafeMutablePointer<CChar>?] = [nil]
        var process: pid_t = 0
        try #require(posix_spawn(&process, "/bin/sh", nil, nil, &arguments, &environment) == 0)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 {
            let isInterrupted = errno == EINTR
            try #require(isInterrupted)
        }
        try #require(status == 0, "the shell wrote \(path)")
    }
}
