/// What a page shows. Its properties are what its template names.
protocol Page: Sendable {
    /// The name of the template.
    static var template: String { get }
    var title: String { get }
}

/// The form with a name and a password.
struct LoginPage: Page {
    static let template = "login"
    let title = "Log in"
    let action: String
    let clientName: String?
    let username: String?
    let isPinned: Bool
    let canCancel: Bool
    let problem: String?
    let token: String
}

/// One sentence, and nothing to do.
struct MessagePage: Page {
    static let template = "message"
    let title: String
    let text: String
}

/// A question with one button.
struct ConfirmPage: Page {
    static let template = "confirm"
    let title: String
    let text: String
    let action: String
    let button: String
    let token: String
}

/// A user's settings.
struct SettingsPage: Page {
    static let template = "settings"
    let title = "Settings"
    let username: String
    let showsBiometric: Bool
    let deviceCount: String
    let showsLocker: Bool
    let enrolmentCount: String
    let token: String
}

/// A user's biometric identities.
struct BiometricPage: Page {
    static let template = "biometric"

    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        let kid: String
        let day: String
    }

    let title = "Biometric login"
    let username: String
    let devices: [Device]
    let notice: String?
    let token: String
    let hasNone: Bool
}

/// A user's enrolled devices.
struct LockerPage: Page {
    static let template = "locker"

    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        let client: String
        /// The first characters of ``id``, which tell several enrolments of one machine apart.
        let shortID: String
        let easyAccess: String
        let day: String
        let lastUse: String
    }

    let title = "Enrolled devices"
    let username: String
    let devices: [Device]
    let notice: String?
    let token: String
    let hasNone: Bool
}
