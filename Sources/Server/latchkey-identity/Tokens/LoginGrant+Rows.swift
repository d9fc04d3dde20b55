import FoundationEssentials
import LatchkeyRelyingParty

extension LoginGrant {
    /// Reads a row of `offline_grant`.
    init(_ row: SQLRow) throws {
        var amr: DeviceAuthentication?
        if let text = try row.optionalText("amr") {
            guard let known = DeviceAuthentication(rawValue: text) else {
                throw SQLFailure(.statement, "a grant has an unknown authentication")
            }
            amr = known
        }
        self.init(
            id: try row.text("id"), clientID: try row.text("client_id"),
            userID: try row.text("user_id"),
            deviceID: try row.optionalText("device_id"),
            enrolmentID: try row.optionalText("enrolment_id"),
            easyAccessKeyID: try row.optionalText("easy_access_kid"), scope: try row.text("scope"),
            amr: amr,
            authTime: try row.real("auth_time"), expiresAt: try row.real("expires_at"),
            idleExpiresAt: try row.real("idle_expires_at"),
            keyThumbprint: try row.optionalText("dpop_jkt"))
    }

    /// The statement that stores the grant.
    func insertion(_ refreshToken: RefreshToken?) -> SQLText {
        """
        INSERT INTO offline_grant (
            id, client_id, user_id, device_id, enrolment_id, easy_access_kid, scope, amr, auth_time, expires_at,
            idle_expires_at, dpop_jkt, refresh_family, refresh_digest
        ) VALUES (
            \(id), \(clientID), \(userID), \(deviceID), \(enrolmentID), \(easyAccessKeyID), \(scope),
            \(amr?.rawValue), \(authTime), \(expiresAt), \(idleExpiresAt), \(keyThumbprint),
            \(refreshToken?.familyDigest), \(refreshToken?.digest)
        )
        """
    }

    static func delete(id: String, in database: any SQLConnection) throws {
        try database.execute("DELETE FROM offline_grant WHERE id = \(id)")
    }
}

extension AuthorizationCode {
    /// Reads a row of `authorization_code`.
    init(_ row: SQLRow) throws {
        self.init(
            digest: try row.blob("digest"), grantID: try row.text("grant_id"),
            clientID: try row.text("client_id"),
            userID: try row.text("user_id"), redirectURI: try row.text("redirect_uri"),
            codeChallenge: try row.text("code_challenge"), scope: try row.text("scope"),
            nonce: try row.optionalText("nonce"), keyThumbprint: try row.optionalText("dpop_jkt"),
            authTime: try row.real("auth_time"),
            expiresAt: try row.real("expires_at"), isUsed: try row.bool("is_used"),
            isReauthentication: try row.bool("is_reauthentication"))
    }

    func insert(in database: any SQLConnection) throws {
        try database.execute(
            """
            INSERT INTO authorization_code (
                digest, grant_id, client_id, user_id, redirect_uri, code_challenge, scope, nonce, dpop_jkt,
                auth_time, expires_at, is_used, is_reauthentication
            ) VALUES (
                \(digest), \(grantID), \(clientID), \(userID), \(redirectURI), \(codeChallenge), \(scope),
                \(nonce), \(keyThumbprint), \(authTime), \(expiresAt), \(isUsed), \(isReauthentication)
            )
            """)
    }
}
