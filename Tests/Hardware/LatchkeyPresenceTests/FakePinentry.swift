import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport

/// A pinentry program, written as a shell script.
struct FakePinentry {
    let path: String
    private let log: String
    private let directory: TemporaryDirectory

    /// - Parameter answer: The script's commands for GETPIN.
    init(answering answer: String) throws {
        try self.init(
            script: """
                echo "OK Pleased to meet you"
                while IFS= read -r line; do
                    printf '%s\\n' "$line" >> "$LOG"
                    case "$line" in
                    GETPIN) \(answer) ;;
                    BYE) echo OK; exit 0 ;;
                    *) echo OK ;;
                    esac
                done
                """)
    }

    init(script: String) throws {
        directory = try TemporaryDirectory()
        log = directory.path(of: "log")
        path = try directory.makeScript("pinentry", "#!/bin/sh\nLOG=\(log)\n\(script)\n")
    }

    /// The commands that the script received.
    var commands: [String] {
        get throws {
            try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n").map(String.init)
        }
    }
}
