// Foundation declares JSONSerialization.
internal import Foundation
public import Latchkey
internal import LatchkeyJOSE

/// The same calls with callbacks, as on iOS. A callback runs once, on the main actor.
extension Locker {
    /// The current status.
    public func getAuthSessionStatus() -> AuthSessionStatus { authSessionStatus }

    /// `startAuthSession(options:metadata:)`.
    ///
    /// - Parameter metadata: JSON values: text, numbers, truth values, arrays and dictionaries of
    ///   them, nil, and everything that `JSONSerialization` returns.
    public func startAuthSession(
        options: StartAuthSessionOptions?, metadata: [String: Any?]?,
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) ->
            Void
    ) {
        let json = JSONValue.members(of: metadata, "start the session")
        respond(callback) { () throws(ErsteGroupAuthError) in
            try await self.startAuthSession(options: options, metadata: json.get())
        }
    }

    /// ``backgroundAccess(metadata:)``.
    public func backgroundAccess(
        metadata: [String: Any?]?,
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: BackgroundAccessError?) ->
            Void
    ) {
        let json = JSONValue.members(of: metadata, "get background access").mapError(
            BackgroundAccessError.init)
        respond(callback) { () throws(BackgroundAccessError) in
            try await self.backgroundAccess(metadata: json.get())
        }
    }

    /// ``endAuthSession(mode:)``.
    public func endAuthSession(
        mode: EndAuthMode,
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) ->
            Void
    ) {
        respond(callback) { () throws(ErsteGroupAuthError) in
            try await self.endAuthSession(mode: mode)
        }
    }

    /// ``dismissUI()``.
    public func dismissUI(
        callback: @escaping @MainActor (_ session: AuthSessionStatus, _ error: (any Error)?) -> Void
    ) {
        respond({ callback($0, $1) }) { () throws(ErsteGroupAuthError) in try await self.dismissUI()
        }
    }

    /// ``disableEasyAccess()``.
    public func disableEasyAccess(
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) ->
            Void
    ) {
        respond(callback) { () throws(ErsteGroupAuthError) in try await self.disableEasyAccess() }
    }

    /// ``enableEasyAccess()``.
    public func enableEasyAccess(
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) ->
            Void
    ) {
        respond(callback) { () throws(ErsteGroupAuthError) in try await self.enableEasyAccess() }
    }

    /// ``changeEasyAccess()``.
    public func changeEasyAccess(
        callback:
            @escaping @MainActor (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) ->
            Void
    ) {
        respond(callback) { () throws(ErsteGroupAuthError) in try await self.changeEasyAccess() }
    }

    // MARK: Helpers

    /// Runs a call, and delivers its result.
    private func respond<Failure: Error>(
        _ callback: @escaping @MainActor (AuthSessionStatus, Failure?) -> Void,
        _ body: @escaping @Sendable () async throws(Failure) -> AuthSessionStatus
    ) {
        Task {
            do throws(Failure) {
                let status = try await body()
                await callback(status, nil)
            } catch {
                await callback(self.authSessionStatus, error)
            }
        }
    }
}

extension JSONValue {
    /// The metadata as JSON.
    fileprivate static func members(
        of metadata: [String: Any?]?, _ operation: String
    ) -> Result<[String: JSONValue]?, ErsteGroupAuthError> {
        guard let metadata else { return .success(nil) }
        guard case .object(let members)? = JSONValue(any: metadata) else {
            return .failure(
                ErsteGroupAuthError(
                    operation: operation, code: .invalidInput,
                    reason: "JSON can't represent a value of the metadata",
                    recovery:
                        "Use only strings, numbers, Booleans, and arrays and dictionaries of these."
                ))
        }
        return .success(members)
    }

    /// - Returns: nil if JSON can't represent a value.
    private init?(any value: Any?) {
        switch value {
        case nil: self = .null
        case let value as JSONValue: self = value
        case let values as [Any?]:
            let elements = values.compactMap(JSONValue.init(any:))
            guard elements.count == values.count else { return nil }
            self = .array(elements)
        case let values as [String: Any?]:
            let members = values.compactMapValues(JSONValue.init(any:))
            guard members.count == values.count else { return nil }
            self = .object(members)
        case let value?:
            // Foundation's encoder tells NSNumber's truth values from its numbers.
            guard JSONSerialization.isValidJSONObject([value]),
                let json = try? JSONSerialization.data(withJSONObject: [value]),
                let element = try? JSONDecoder().decode([JSONValue].self, from: json).first
            else { return nil }
            self = element
        }
    }
}
