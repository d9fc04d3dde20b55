import Foundation
import LatchkeyLogin

/// The user's browser: a program that receives the address as an argument.
struct ProgramBrowser: Browser {
    let program: String

    func open(_ url: String) async throws {
        print("The login page opens in your browser. If it does not, open \(url)")
        // As in a shell: a name in PATH, followed by arguments.
        let words = program.split(separator: " ").map(String.init)
        _ = try Process.run(URL(filePath: "/usr/bin/env"), arguments: words + [url])
    }
}
