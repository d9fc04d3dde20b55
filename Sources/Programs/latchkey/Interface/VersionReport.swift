import FoundationEssentials
import Latchkey
import LatchkeyOAuth

/// `latchkey --version`: what a report of a problem needs.
struct VersionReport: SentenceReport {
    let version: String
    /// The commit of the package of which this program is a part; absent for a build without one.
    let commit: String?
    /// The versions of the loaded libraries, as they report them. tpm2-tss reports none.
    let libraries: [String: String]

    init() {
        version = Release.version
        commit = Self.packagedCommit
        var libraries = CurlTransport.libraryVersions
        libraries["SQLite"] = RecordStore.libraryVersion
        self.libraries = libraries
    }

    /// The first line is the version alone.
    var text: String {
        let versions = libraries.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return
            ([version, commit.map { "commit \($0)" } ?? "no commit: not from a package"]
            + versions + ["tpm2-tss (does not report its version)"])
            .joined(separator: "\n")
    }

    /// The file `commit` of the package latchkey-runtime, whose version is that of the program's
    /// package.
    private static var packagedCommit: String? {
        let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        guard let own, own.hasSuffix("/bin/latchkey") else { return nil }
        let path = own.dropLast("bin/latchkey".count) + "lib/latchkey/commit"
        let text = FileManager.default.contents(atPath: String(path)).map {
            String(decoding: $0, as: UTF8.self)
        }
        return text?.split(separator: "\n").first.map(String.init)
    }
}
