import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@Suite("Locker assertions") struct LockerVerifierTests {
    @Test(arguments: LockerRig.actions) func `the right assertion is accepted once`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        let assertion = try rig.assertion(action, challenge: try await rig.challenge(for: action))
        try await rig.verify(assertion, as: action)
        if action == .revoke {
            try await rig.verify(assertion, as: action)
        } else {
            #expect(await rig.refusal(of: assertion, as: action) == .challengeRejected)
        }
    }

    @Test(arguments: LockerRig.actions)
    func `a flawed assertion is refused and does not use the challenge`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        let (key, enrolment) = rig.signer(of: action)
        for flaw in LockerFlaw.allCases where flaw.applies(to: action.rawValue) {
            let challenge = try await rig.challenge(for: action)
            let flawed = try flaw.assertion(
                key, action.rawValue, audience: LockerRig.audience, enrolment: enrolment,
                challenge: challenge,
                now: rig.time.clock.seconds)
            let code = try #require(await rig.refusal(of: flawed, as: action))
            #expect([.malformed, .misdirected, .untimely].contains(code), "\(flaw): \(code)")
            try await rig.verify(rig.assertion(action, key: key, challenge: challenge), as: action)
        }
    }

    @Test(arguments: LockerRig.actions) func `an assertion for one action is refused for another`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        for other in LockerRig.actions where other != action {
            let challenge = try await rig.challenge(for: action)
            let assertion = try rig.assertion(action, challenge: challenge)
            #expect(await rig.refusal(of: assertion, as: other) == .misdirected, "\(other)")
            try await rig.verify(assertion, as: action)
        }
    }

    /// The actions that need another key, a countersignature, or no challenge, signed by the device
    /// key.
    @Test(arguments: [LockerRequest.Action.easyAccess, .easyAccessEnable, .enrol, .revoke])
    func `an endpoint for the device key refuses other actions that this key signed`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        for expected in [
            LockerRequest.DeviceAction.easyAccessDisable, .backgroundAccess, .levelShares,
        ] {
            let challenge = try await rig.challenge(for: action)
            let request = try LockerRequest(
                rig.assertion(action, key: rig.device, challenge: challenge))
            let error = await #expect(throws: LockerRequestError.self) {
                _ = try await rig.verifier.verifyDevice(
                    request, for: expected, audience: LockerRig.audience, enrolmentID: nil)
            }
            #expect(error?.code == .misdirected, "\(expected)")
        }
    }

    @Test(arguments: LockerRig.actions.filter { $0 != .revoke })
    func `a challenge that is unknown, expired, used or for another purpose is refused`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        let expired = try await rig.challenges.issue(.lockerRequest).token
        rig.time.advance(by: Challenge.lifetime)
        let used = try await rig.challenges.issue(.lockerRequest).token
        try await rig.verify(
            rig.assertion(.backgroundAccess, challenge: used), as: .backgroundAccess)
        let other = try await rig.challenges.issue(.biometricRequest).token
        for challenge in ["", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", expired, used, other] {
            let assertion = try rig.assertion(action, challenge: challenge)
            #expect(await rig.refusal(of: assertion, as: action) == .challengeRejected)
        }
    }

    @Test(arguments: LockerRig.actions)
    func `a signature of another key is refused and uses the challenge`(
        action: LockerRequest.Action
    ) async throws {
        let rig = try await LockerRig()
        let (key, enrolment) = rig.signer(of: action)
        let challenge = try await rig.challenge(for: action)
        let draft = key.draft(
            action.rawValue, audience: LockerRig.audience, enrolment: enrolment,
            challenge: challenge,
            now: rig.time.clock.seconds)
        let forged = try key.impostor.sign(header: draft.header, payload: draft.payload)
        #expect(await rig.refusal(of: forged, as: action) == .invalidSignature)
        let good = try rig.assertion(action, key: key, challenge: challenge)
        if action == .revoke {
            try await rig.verify(good, as: action)
        } else {
            #expect(await rig.refusal(of: good, as: action) == .challengeRejected)
        }
    }

    @Test(arguments: LockerRig.actions.filter { $0 != .enrol && $0 != .easyAccessEnable })
    func `a key with another name is refused`(action: LockerRequest.Action) async throws {
        let rig = try await LockerRig()
        // The device key is not valid for easy access, and an easy-access key is not valid for the
        // device.
        let wrong =
            action == .easyAccess
            ? [rig.device, LockerTestKey()] : [rig.easyAccess, LockerTestKey()]
        for key in wrong {
            let assertion = try rig.assertion(
                action, key: key, challenge: try await rig.challenge(for: action))
            #expect(
                await rig.refusal(of: assertion, as: action)
                    == (action == .easyAccess ? .easyAccessRevoked : .enrolmentRevoked))
        }
    }

    @Test func `a deleted enrolment is reported as revoked, except by its revocation`() async throws
    {
        let rig = try await LockerRig()
        #expect(try await rig.registry.remove(rig.enrolment))
        for action in LockerRig.actions where action != .enrol {
            let assertion = try rig.assertion(
                action, challenge: try await rig.challenge(for: action))
            if action == .revoke {
                let revocation = try await rig.verifier.verifyRevocation(
                    LockerRequest(assertion), audience: LockerRig.audience,
                    enrolmentID: rig.enrolment.id)
                #expect(revocation == nil)
            } else {
                #expect(
                    await rig.refusal(of: assertion, as: action) == .enrolmentRevoked, "\(action)")
            }
        }
    }

    /// An assertion is valid if now < exp + 300 and now >= iat - 300.
    @Test(arguments: [
        ([0.0, 300], true), ([0, 301], false), ([300, 360], true), ([301, 360], false),
        ([-359, -299], true),
        ([-360, -300], false), ([-0.5, 299.5], true), ([0, 0], false), ([60, 0], false),
    ])
    func `the times have limits`(times: [Double], isAccepted: Bool) async throws {
        let rig = try await LockerRig()
        let now = Double(rig.time.clock.seconds)
        let assertion = try rig.assertion(
            .backgroundAccess, challenge: try await rig.challenge(for: .backgroundAccess),
            payload: ["iat": .number(now + times[0]), "exp": .number(now + times[1])])
        if isAccepted {
            try await rig.verify(assertion, as: .backgroundAccess)
        } else {
            let code = try #require(await rig.refusal(of: assertion, as: .backgroundAccess))
            #expect(code == .malformed || code == .untimely)
        }
    }

    @Test(arguments: [-1e9, 1e9]) func `a revocation's time is not checked`(offset: Double)
        async throws
    {
        let rig = try await LockerRig()
        let now = Double(rig.time.clock.seconds)
        let assertion = try rig.assertion(
            .revoke, challenge: nil, payload: ["iat": .number(now + offset)])
        try await rig.verify(assertion, as: .revoke)
    }

    @Test func `metadata is passed on`() async throws {
        let rig = try await LockerRig()
        // 4,096 bytes of JSON, and an unknown claim.
        let metadata = JSONValue.object(["m": .string(String(repeating: "x", count: 4_088))])
        let request = try LockerRequest(
            rig.assertion(
                .easyAccess, challenge: "x", payload: ["metadata": metadata, "nbf": "never"]))
        #expect(request.metadata == metadata)
        #expect(request.action == .easyAccess)
    }

    @Test func `optional members of a key can be missing`() async throws {
        let rig = try await LockerRig()
        let key = LockerTestKey()
        let bare = key.jwk.filter { ["kty", "crv", "x", "y"].contains($0.key) }
        let assertion = try rig.assertion(
            .enrol, key: key, challenge: try await rig.challenge(for: .enrol),
            header: ["jwk": .object(bare)])
        let proof = try await rig.verifier.verifyEnrolment(
            LockerRequest(assertion), audience: LockerRig.audience)
        #expect(proof.deviceKey == (try LockerRig.key(key)))
        #expect(proof.info.label == "Linux Test (bench)")
    }

    @Test(arguments: LockerRequestError.Code.allCases)
    func `only a missing enrolment has its own response`(
        code: LockerRequestError.Code
    ) {
        let error = LockerRequestError(code, "detail").oauthError
        switch code {
        case .enrolmentRevoked: #expect(error.status == 401 && error.error == "enrolment_revoked")
        case .easyAccessRevoked:
            #expect(error.status == 400 && error.error == "easy_access_revoked")
        case .easyAccessLimit: #expect(error.status == 409 && error.error == "easy_access_limit")
        case .enrolmentLimit: #expect(error.status == 400 && error.error == "invalid_request")
        default: #expect(error == .invalidGrant("the assertion is not accepted"))
        }
    }
}
