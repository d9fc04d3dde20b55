internal import Glibc
public import LatchkeySimulators
internal import Testing

extension TemporaryDirectory {
    /// Writes an executable script into the directory.
    ///
    /// Another process writes it. Linux runs no file that somebody has open for writing, and every child that is started
    /// while this process had it open would have it open too, until it is another program or, without `O_CLOEXEC`, for
    /// as long as it runs.
    ///
    /// - Parameter text: The whole script, with its first line `#!…`, at most 100 KiB.
    /// - Returns: Its path.
    /// - Throws: When it can't be written.
    public func makeScript(_ name: String, _ text: String) throws -> String {
        let path = path(of: name)
        let write = #"printf %s "$2" >"$1" && chmod 700 "$1""#
        var arguments = ["sh", "-c", write, "sh", path, text].map { (argument: String) in strdup(argument) } + [nil]
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
        return path
    }
}
