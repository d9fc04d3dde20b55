public import FoundationEssentials
public import Latchkey

/// Which devices are enrolled for which users, with their keys and the server's shares. Each call is atomic: of two that
/// run at once, one sees what the other has done.
public protocol LockerRegistry: Sendable {
    /// Enrols a device.
    ///
    /// - Parameters:
    ///   - shares: What the server keeps for it, never changed afterwards; nil where the server keeps none.
    ///   - limit: How many enrolments the user may have, this one among them.
    /// - Throws: ``LockerRequestError`` with code `enrolmentLimit` when the user has so many already, `keyTaken` when the
    ///   device key is enrolled already.
    func add(_ enrolment: LockerEnrolment, shares: LevelShares?, limit: Int) async throws

    /// The enrolment of this id.
    func enrolment(id: String) async throws -> LockerEnrolment?

    /// A user's enrolments, the oldest first.
    func enrolments(of userID: String) async throws -> [LockerEnrolment]

    /// The shares of an enrolment; nil where none are kept for it.
    ///
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` when there is no such enrolment.
    func levelShares(of id: String) async throws -> LevelShares?

    /// Adds an easy-access key. The same key again changes nothing.
    ///
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` when there is no such enrolment,
    ///   `easyAccessLimit` when it has ``LockerEnrolment/maximumEasyAccessKeys`` others, or `keyTaken` when another key
    ///   of the enrolment has this name, or this key another name.
    func addEasyAccessKey(_ key: LockerKey, to id: String) async throws

    /// Removes the easy-access key of this name, or all of them without one. Where there is none, nothing happens.
    func removeEasyAccessKeys(named kid: KeyID?, of id: String) async throws

    /// Notes that the device got tokens or shares. Where there is no such enrolment, nothing happens.
    func recordUse(of id: String, at time: Date) async throws

    /// Forgets an enrolment, its keys and its shares.
    ///
    /// - Returns: Whether there was such an enrolment.
    @discardableResult
    func remove(id: String) async throws -> Bool
}
