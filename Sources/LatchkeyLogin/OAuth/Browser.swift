/// What shows a page to the person.
public protocol Browser: Sendable {
    /// Shows the page and returns without waiting for the person.
    ///
    /// - Parameter url: An absolute URL.
    /// - Throws: When no page can be shown.
    func open(_ url: String) async throws
}
