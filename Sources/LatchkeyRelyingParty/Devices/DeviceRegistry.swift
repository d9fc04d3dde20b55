public import Latchkey

/// Which keys belong to which users, within one project.
public protocol DeviceRegistry: Sendable {
    /// Registers a device.
    ///
    /// - Throws: ``BiometricRequestError`` with code `duplicateKeyID` when the key's name is taken, by any user.
    func add(_ device: RegisteredDevice) async throws

    /// The device whose key has this name.
    func device(kid: KeyID) async throws -> RegisteredDevice?

    /// A user's devices, the oldest first.
    func devices(of userID: String) async throws -> [RegisteredDevice]

    /// Forgets a device, if it is this user's.
    ///
    /// - Returns: The device that was forgotten; nil when this user has none of this name.
    func remove(kid: KeyID, of userID: String) async throws -> RegisteredDevice?
}
