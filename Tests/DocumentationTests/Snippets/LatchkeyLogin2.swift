import Foundation
import LatchkeyLogin

/// The person's browser, as the desktop knows it.
struct DesktopBrowser: Browser {
    func open(_ url: String) async throws {
        _ = try Process.run(URL(filePath: "/usr/bin/xdg-open"), arguments: [url])
    }
}
