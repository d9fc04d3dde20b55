import Foundation
import LatchkeyCredentials

// The unchanged code of AuthFoundation's article, except for the import, where an app has it. The
// rest of this file is the app's own.

/// An app that follows the article.
final class CredentialApp {
    /// The actions, in order. Notifications and handlers add to it on the main queue.
    nonisolated(unsafe) private(set) static var done: [String] = []

    // swift-format-ignore
    @MainActor static func observe() -> any NSObjectProtocol {
NotificationCenter.default.addObserver(forName: .defaultCredentialChanged,
                                       object: nil,
                                       queue: .main) { notification in
    guard let credential = notification.object as? Credential else {
        // User signed out
        done.append("signed out")
        return
    }

    // Do something with the user
    done.append("default \(credential.id)")
}
    }

    // swift-format-ignore
    @MainActor static func use(serviceTokenId: String) throws {
if let credential = try Credential.with(id: serviceTokenId) {
    // Do something with the credential
    done.append("id \(credential.id)")
}
    }

    // swift-format-ignore
    @MainActor static func store(newToken: Token) throws {
try Credential.store(token: newToken, tags: ["service": "purchase"])

// Later ...

if let credential = try Credential.find(where: { $0.tags["service"] == "purchase" }).first {
    // Use the credential
    done.append("tag \(credential.id)")
}
    }

    // swift-format-ignore
    @MainActor static func findUser() throws {
let userCredentials = try Credential.find { metadata in
    metadata.subject == "jane.doe@example.com"
}
        done.append("claim \(userCredentials.map(\.id))")
    }

    /// The members that the article names.
    @MainActor static func use(_ credential: Credential) async throws {
        var token = try await credential.token
        done.append("token \(token.accessToken.isEmpty ? "?" : token.id)")
        token = try await credential.refresh()
        done.append("refresh \(token.id)")
        done.append("user info \(try await credential.userInfo().subject ?? "")")
        // "A client is automatically created on your behalf, which can be used to perform other
        // operations as needed."
        done.append("oauth2 \(try await credential.oauth2.introspect(token: token).isActive)")
        try await credential.revoke(type: .all)
        done.append("revoke")
    }

    @MainActor static func forget() { done = [] }
}
