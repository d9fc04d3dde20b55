import Foundation
import LatchkeyLogin

/// The user's browser: a program that gets the URL as its argument.
struct ProgramBrowser: Browser {
    let program: String

    func open(_ url: String) async throws {
        print("The login page opens in your browser. If it does not, open \(url)")
        // Like a shell, splits the program's name from its arguments and finds it in PATH.
        let words = program.split(separator: " ").map(String.init)
        _ = try Process.run(URL(filePath: "/usr/bin/env"), arguments: words + [url])
    }
}
