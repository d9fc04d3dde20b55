import Foundation
import LatchkeyLogin

/// The person's browser, as a program that gets the address as its argument.
struct ProgramBrowser: Browser {
    let program: String

    func open(_ url: String) async throws {
        print("The login page opens in your browser. If it does not, open \(url)")
        // As a shell would have it: a name in PATH, and arguments after it.
        let words = program.split(separator: " ").map(String.init)
        _ = try Process.run(URL(filePath: "/usr/bin/env"), arguments: words + [url])
    }
}
