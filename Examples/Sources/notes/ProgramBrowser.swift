import Foundation
import LatchkeyLogin

/// The person's browser, as a program that gets the address as its argument.
struct ProgramBrowser: Browser {
    let program: String

    func open(_ url: String) async throws {
        print("The login page opens in your browser. If it does not, open \(url)")
        _ = try Process.run(URL(filePath: program), arguments: [url])
    }
}
