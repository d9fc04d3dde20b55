internal import LatchkeyJOSE

/// The same calls with callbacks, as on iOS. A callback runs once, through the configuration's `deliver`: by default on
/// the main actor.
extension Locker {
    /// The current status.
    public func getAuthSessionStatus() -> AuthSessionStatus { authSessionStatus }

    /// `startAuthSession(options:metadata:)`.
    ///
    /// - Parameter metadata: JSON values: text, numbers, truth values, arrays and dictionaries of them, nil.
    public func startAuthSession(
        options: StartAuthSessionOptions?, metadata: [String: Any?]?,
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) -> Void
    ) {
        let json = metadata.map(JSONValue.members)
        call(callback) { () throws(ErsteGroupAuthError) in
            try await self.startAuthSession(options: options, metadata: try Self.checked(json, "start the session"))
        }
    }

    /// ``backgroundAccess(metadata:)``.
    public func backgroundAccess(
        metadata: [String: Any?]?,
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: BackgroundAccessError?) -> Void
    ) {
        let json = metadata.map(JSONValue.members)
        call(callback) { () throws(BackgroundAccessError) in
            let checked: [String: JSONValue]?
            do throws(ErsteGroupAuthError) {
                checked = try Self.checked(json, "get background access")
            } catch {
                throw BackgroundAccessError(error)
            }
            return try await self.backgroundAccess(metadata: checked)
        }
    }

    /// ``endAuthSession(mode:)``.
    public func endAuthSession(
        mode: EndAuthMode,
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) -> Void
    ) {
        call(callback) { () throws(ErsteGroupAuthError) in try await self.endAuthSession(mode: mode) }
    }

    /// ``dismissUI()``.
    public func dismissUI(
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: (any Error)?) -> Void
    ) {
        call({ callback($0, $1) }) { () throws(ErsteGroupAuthError) in try await self.dismissUI() }
    }

    /// ``disableEasyAccess()``.
    public func disableEasyAccess(
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) -> Void
    ) {
        call(callback) { () throws(ErsteGroupAuthError) in try await self.disableEasyAccess() }
    }

    /// ``enableEasyAccess()``.
    public func enableEasyAccess(
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) -> Void
    ) {
        call(callback) { () throws(ErsteGroupAuthError) in try await self.enableEasyAccess() }
    }

    /// ``changeEasyAccess()``.
    public func changeEasyAccess(
        callback: @escaping @Sendable (_ session: AuthSessionStatus, _ error: ErsteGroupAuthError?) -> Void
    ) {
        call(callback) { () throws(ErsteGroupAuthError) in try await self.changeEasyAccess() }
    }

    // MARK: Helpers

    private func call<Failure: Error>(
        _ callback: @escaping @Sendable (AuthSessionStatus, Failure?) -> Void,
        _ body: @escaping @Sendable () async throws(Failure) -> AuthSessionStatus
    ) {
        let deliver = configuration.deliver
        Task {
            do throws(Failure) {
                let status = try await body()
                deliver { callback(status, nil) }
            } catch {
                let status = self.authSessionStatus
                deliver { callback(status, error) }
            }
        }
    }

    /// - Parameter json: The metadata as JSON; the inner nil if JSON can't represent it.
    private static func checked(
        _ json: [String: JSONValue]??, _ operation: String
    ) throws(ErsteGroupAuthError) -> [String: JSONValue]? {
        switch json {
        case .none: return nil
        case .some(.some(let members)): return members
        case .some(.none):
            throw ErsteGroupAuthError(
                operation: operation, code: .invalidInput, reason: "JSON can't represent a value of the metadata",
                recovery: "Use text, numbers, truth values, and arrays and dictionaries of them.")
        }
    }
}

extension JSONValue {
    /// - Returns: nil if JSON can't represent a value.
    fileprivate static func members(_ values: [String: Any?]) -> [String: JSONValue]? {
        var members: [String: JSONValue] = [:]
        for (name, value) in values {
            guard let value = JSONValue(any: value) else { return nil }
            members[name] = value
        }
        return members
    }

    private init?(any value: Any?) {
        switch value {
        case nil: self = .null
        case let value as JSONValue: self = value
        case let value as Bool: self = .bool(value)
        case let value as any BinaryInteger: self = .number(Double(value))
        case let value as any BinaryFloatingPoint where Double(value).isFinite: self = .number(Double(value))
        case let value as String: self = .string(value)
        case let values as [Any?]:
            let elements = values.compactMap(JSONValue.init(any:))
            guard elements.count == values.count else { return nil }
            self = .array(elements)
        case let values as [String: Any?]:
            guard let members = Self.members(values) else { return nil }
            self = .object(members)
        default: return nil
        }
    }
}
