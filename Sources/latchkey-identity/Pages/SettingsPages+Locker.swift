import FoundationEssentials
import Hummingbird
import LatchkeyRelyingParty
import Logging

extension SettingsPages {
    /// The list of enrolled devices.
    func showLocker(_ request: Request, _ locker: LockerServices) async throws -> Response {
        try await withUser(request) { user, token in
            let enrolments = try await locker.registry.enrolments(of: user.id)
            return LockerPage(
                username: user.username,
                devices: enrolments.map {
                    LockerPage.Device(
                        id: $0.id, model: $0.info.model, name: $0.info.name,
                        client: services.configuration.client(id: $0.clientID)?.name ?? $0.clientID,
                        shortID: String($0.id.prefix(8)),
                        easyAccess: $0.easyAccessKeys.isEmpty ? "without easy access" : "with easy access",
                        day: Self.day($0.createdAt),
                        lastUse: $0.lastUsedAt.map { "last used \(Self.minute($0))" } ?? "not used yet")
                },
                notice: request.uri.query == "revoked" ? "The device was revoked." : nil,
                token: token,
                hasNone: enrolments.isEmpty)
        }
    }

    /// Ends an enrolment: `x_action=revoke`, `x_enrolment_id`. The device can't open what it keeps any more, and sessions
    /// that it began without the browser end.
    func revokeEnrolment(
        _ request: Request, _ context: IdentityContext, _ locker: LockerServices
    ) async throws -> Response {
        try await withForm(request, context) { user, form in
            guard form["x_action"] == "revoke", let id = form["x_enrolment_id"] else {
                throw OAuthError.invalidRequest("x_action and x_enrolment_id are required")
            }
            guard
                try await locker.registry.enrolments(of: user.id).contains(where: { $0.id == id }),
                try await locker.registry.remove(id: id)
            else {
                return services.pages.message(
                    title: "No such device", text: "It was revoked already, or it never was yours.", status: .notFound)
            }
            context.logger.notice("enrolment revoked", metadata: ["enrolment": "\(id)"])
            return .seeOther("/settings/locker?revoked")
        }
    }
}
