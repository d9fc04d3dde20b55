/// What shows a page to the person.
public protocol Browser: Sendable {
    /// Shows the page and returns without waiting for the person.
    ///
    /// - Parameter url: An absolute URL on the loopback interface, which redirects to the login page. It works once, and
    ///   for programs of the user as whom this one runs.
    /// - Throws: When no page can be shown.
    func open(_ url: String) async throws
}
