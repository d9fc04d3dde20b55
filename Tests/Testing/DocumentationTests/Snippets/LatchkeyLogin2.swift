import Foundation
import LatchkeyLogin

/// Opens the desktop's default browser.
struct DesktopBrowser: Browser {
    func open(_ url: String) async throws {
        _ = try Process.run(URL(filePath: "/usr/bin/xdg-open"), arguments: [url])
    }
}
