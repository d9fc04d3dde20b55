/// The content of a page.
struct Page: Sendable {
    let title: String
    let content: HTML

    /// A title and a sentence.
    static func message(title: String, text: String) -> Page {
        Page(title: title, content: "<h1>\(title)</h1>\n<p>\(text)</p>")
    }

    static let notFound = message(
        title: "Page not found", text: "This server has no page with this address.")

    static let loggedOut = message(
        title: "Logged out", text: "You are logged out of this browser.")

    /// The form with a user name and a password.
    ///
    /// - Parameters:
    ///   - clientName: The app that sent the user; nil for the server's own pages.
    ///   - isPinned: Whether only one user may log in.
    static func login(
        action: String, token: String, clientName: String?, username: String?, isPinned: Bool,
        canCancel: Bool, problem: String?
    ) -> Page {
        let (first, second): (HTML, HTML) =
            username == nil ? (" autofocus", "") : ("", " autofocus")
        return Page(
            title: "Log in",
            content: """
                <h1>Log in</h1>
                \(clientName.map { "<p class=\"lead\">to continue to <strong>\($0)</strong></p>" })
                \(problem.map { "<p class=\"problem\" role=\"alert\">\($0)</p>" })
                \(isPinned ? "<p class=\"note\">Use the account for which this device is set up.</p>" : "" as HTML)
                <form method="post" action="\(action)">
                \(hidden("csrf_token", token))
                <label for="username">User name</label>
                <input id="username" name="username" value="\(username ?? "")" autocomplete="username" \
                autocapitalize="none" spellcheck="false" required\(first)>
                <label for="password">Password</label>
                <input id="password" name="password" type="password" autocomplete="current-password" required\(second)>
                <div class="actions">
                <button type="submit">Log in</button>
                \(canCancel ? "<a class=\"button quiet\" href=\"\(action)&amp;x_cancel=1\">Cancel</a>" : "" as HTML)
                </div>
                </form>
                """)
    }

    /// A user's settings.
    ///
    /// - Parameter lists: The lists of devices to link to, with the numbers of devices.
    static func settings(username: String, lists: [(DeviceList, count: Int)], token: String) -> Page
    {
        let rows = lists.map { list, count -> HTML in
            """
            <li><a class="row" href="\(list.path)"><span><strong>\(list.title)</strong>\
            <small>\(count == 1 ? "1 device" : "\(String(count)) devices" as HTML)</small></span>\
            <span class="arrow" aria-hidden="true">›</span></a></li>
            """
        }
        return Page(
            title: "Settings",
            content: """
                <h1>Settings</h1>
                <p class="lead">Logged in as <strong>\(username)</strong></p>
                <ul class="list">
                \(rows)
                </ul>
                <form method="post" action="/logout">
                \(hidden("csrf_token", token))
                <div class="actions"><button class="quiet" type="submit">Log out</button></div>
                </form>
                """)
    }

    /// A list of a user's devices, each with a button.
    static func devices(
        _ list: DeviceList, _ devices: [DeviceList.Device], username: String, notice: String?,
        token: String
    ) -> Page {
        let rows = devices.map { device -> HTML in
            """
            <li class="row">
            <span><strong><bdi>\(device.name ?? device.model)</bdi></strong>
            <small>\(device.name.map { _ in "<bdi>\(device.model)</bdi> · " })\(device.details)</small>
            \(device.use.map { "<small>\($0)</small>" })
            \(device.proof.map { "<small>\($0)</small>" })
            <small class="kid">\(device.label)</small></span>
            <details>
            <summary aria-label="\(list.button) \(device.spokenName)">\(list.button) …</summary>
            <p>\(list.consequence)</p>
            <form method="post" action="\(list.path)">
            \(hidden("csrf_token", token))
            \(hidden("x_action", list.action))
            \(hidden(DeviceList.member, device.id))
            <button class="danger" type="submit">\(list.button) this device</button>
            </form>
            </details>
            </li>
            """
        }
        return Page(
            title: list.title,
            content: """
                <p class="back"><a href="/settings"><span aria-hidden="true">‹</span> Settings</a></p>
                <h1>\(list.title)</h1>
                <p class="lead">\(list.lead(username))</p>
                \(notice.map { "<p class=\"note\" role=\"status\">\($0)</p>" })
                \(devices.isEmpty ? "<p class=\"empty\">\(list.empty)</p>" : "" as HTML)
                <ul class="list">
                \(rows)
                </ul>
                """)
    }

    private static func hidden(_ name: String, _ value: String) -> HTML {
        "<input type=\"hidden\" name=\"\(name)\" value=\"\(value)\">"
    }
}

/// The texts of a list of devices and the members of its forms.
struct DeviceList: Sendable {
    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        /// The text after the name.
        let details: String
        /// The second line of text, if any.
        var use: String?
        /// The proof of the device's keys in words, if the server verified one.
        let proof: String?
        /// The key's name, or a part of the ID that distinguishes several enrolments of one
        /// machine.
        let label: String
        /// The device's name in the accessible name of its button.
        let spokenName: String
    }

    /// The form's member with the device's ID.
    static let member = "x_device_id"

    let kind: DeviceKind
    let title: String
    /// The sentence with the user's name.
    let lead: @Sendable (String) -> HTML
    let empty: String
    let button: String
    /// What the action ends, before the button is shown.
    let consequence: String
    /// The value of `x_action`.
    let action: String
    /// The query of the page after the action, and its past participle.
    let done: String
    /// Whether the action needs a login on this server's own page: it cannot be undone.
    var needsLogin = false

    var path: String { "/settings/\(kind.rawValue)" }

    static let biometric = DeviceList(
        kind: .biometric, title: "Biometric login",
        lead: { "These devices can log in as <strong>\($0)</strong>." },
        empty: "No device is set up.", button: "Remove",
        consequence: "It is logged out, and needs a login in the browser. \(loggedOut)",
        action: "remove",
        done: "removed")
    static let locker = DeviceList(
        kind: .locker, title: "Enrolled devices",
        lead: { "Apps on these devices keep data that only <strong>\($0)</strong> can open." },
        empty: "No device is enrolled.", button: "Revoke",
        consequence: "Its data can never be opened again. \(loggedOut)", action: "revoke",
        done: "revoked", needsLogin: true)
    private static let loggedOut =
        "All apps and browsers in which you logged in with your password are logged out, except this one."
}
