import Foundation
import LatchkeyCredentials

// The code of the seed's guide, word for word but for the import, in the place that an app has for it. The rest of this
// file is the app's own.

/// An app of the seed's reader.
final class CredentialApp: @unchecked Sendable {
    /// Whom the app was told of last.
    private(set) var user: String?

    // swift-format-ignore
    func observe() {
NotificationCenter.default.addObserver(forName: .defaultCredentialChanged,
                                       object: nil,
                                       queue: .main) { notification in
    guard let credential = notification.object as? Credential else {
        // User signed out
        return
    }

    // Do something with the user
    self.user = credential.id
}
    }

    // swift-format-ignore
    func find(serviceTokenId: String) throws -> String? {
if let credential = try Credential.with(id: serviceTokenId) {
    // Do something with the credential
    return credential.id
}
        return nil
    }

    // swift-format-ignore
    func store(newToken: Token) throws -> String? {
try Credential.store(token: newToken, tags: ["service": "purchase"])

// Later ...

if let credential = try Credential.find(where: { $0.tags["service"] == "purchase" }).first {
    // Use the credential
    return credential.id
}
        return nil
    }

    // swift-format-ignore
    func findUser() throws -> Int {
let userCredentials = try Credential.find { metadata in
    metadata.subject == "jane.doe@example.com"
}
        return userCredentials.count
    }
}
