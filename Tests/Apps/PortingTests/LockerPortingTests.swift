import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The statements of Locker's README, in its order, from an app's main actor, against a real
/// server.
@Suite(.softwareTPM) @MainActor
struct LockerPortingTests {
    /// A running app, its user, and the user's browser.
    private struct Program {
        let app: LockerApp
        let user: ScriptedPresence
        let browser: UserBrowser
        let delegate: ApplicationDelegate

        var phase: SessionPhase { app.locker.getAuthSessionStatus().phase }
        /// How often the login page was shown: strong customer authentication.
        var logins: Int { get async { await browser.opened.count } }
        /// How often the user was asked for the PIN: easy access.
        var prompts: Int { user.requests.count }
    }

    /// Starts the app.
    ///
    /// - Parameter steps: The user's first answers. After these, the user enters the PIN.
    private func start(
        on device: PortingDevice, _ steps: [ScriptedPresence.Step] = [],
        _ change: (inout LockerConfiguration) throws -> Void = { _ in }
    ) async throws -> Program {
        let user = ScriptedPresence(steps + Array(repeating: .pin(PortingDevice.pin), count: 16))
        let browser = UserBrowser(device.server.users[0])
        let delegate = ApplicationDelegate()
        var configuration = LockerConfiguration(
            issuer: device.server.endpoint, clientID: device.server.clientID,
            records: try await device.records(),
            presence: user, channel: BrowserChannel(browser), transport: device.network,
            offlineVerification: OfflineVerification(), logger: delegate)
        try change(&configuration)
        let locker = try Locker(configuration)
        try await locker.open()
        return Program(app: LockerApp(locker), user: user, browser: browser, delegate: delegate)
    }

    @Test func `the usual order of business`() async throws {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device)
            let app = program.app
            app.signatures()
            // 3 and 4: the status is not active, so the app starts a session with a valid access
            // token.
            let started = try #require(await app.openApp())
            #expect(started.error == nil && started.session.isActive)
            #expect(started.session.accessToken?.value?.isEmpty == false)
            #expect(await app.openApp() == nil)
            // 5: a token with limited scope, without user interaction.
            let background = await app.background(metadata: ["widget": 1])
            let scopes = try #require(background.session.accessToken?.scopes)
            let full = "https://authgear.com/scopes/full-access"
            #expect(
                started.session.accessToken?.scopes.contains(full) == true && !scopes.contains(full)
            )
            #expect(program.prompts == 1)
            // 6: the session is cancelled.
            let ended = await app.end(.lock)
            #expect(ended.error == nil && ended.session.phase == .enrolled)
            #expect(app.shown == ["activeViaStrongAuth", "activeViaStrongAuth", "enrolled"])
            #expect(
                [started.isOnMainThread, background.isOnMainThread, ended.isOnMainThread] == [
                    true, true, true,
                ])
        }
    }

    @Test func `each status has the token, the levels and the next step that the README names`()
        async throws
    {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device)
            let app = program.app
            // Unregistered: startAuthSession requires full authentication.
            #expect(program.phase == .unregistered)
            #expect(app.locker.getAuthSessionStatus().accessToken == nil)
            #expect(app.encryptableLevels() == [])
            var answer = await app.start()
            #expect(
                answer.session.phase == .activeViaStrongAuth
                    && answer.session.accessToken?.value != nil)
            #expect(await program.logins == 1)
            #expect(program.prompts == 1)
            #expect(app.encryptableLevels() == [.active, .offline, .background, .base])
            var texts: [ProtectionLevel: String] = [:]
            for level in ProtectionLevel.allCases {
                texts[level] = try app.locker.encrypt(secret: "s3cret", protectionLevel: level)
            }

            // Enrolled: no token, and startAuthSession requires easy access.
            answer = await app.end(.lock)
            #expect(answer.session.phase == .enrolled && answer.session.accessToken == nil)
            // "Only if the user is not in unregistered auth session state": here a lock is no
            // error, and changes nothing.
            #expect(await app.end(.lock).error == nil && program.phase == .enrolled)
            #expect(app.encryptableLevels() == [.base])
            #expect(app.decryptableLevels(texts) == [.base])
            answer = await app.start()
            #expect(
                answer.session.phase == .activeViaEasyAccess
                    && answer.session.accessToken?.value != nil)
            #expect(await program.logins == 1)
            #expect(program.prompts == 2)
            #expect(app.encryptableLevels() == Set(ProtectionLevel.allCases))
            #expect(app.decryptableLevels(texts) == Set(ProtectionLevel.allCases))
            let scopes = answer.session.accessToken?.scopes

            // Background access: a descoped token; easy access gives the fully scoped one.
            _ = await app.end(.lock)
            let background = await app.background()
            #expect(background.error == nil && background.session.phase == .backgroundAccess)
            #expect(
                background.session.accessToken?.value != nil
                    && background.session.accessToken?.scopes != scopes)
            #expect(program.prompts == 2)
            #expect(app.encryptableLevels() == [.base, .background])
            #expect(app.decryptableLevels(texts) == [.base, .background])
            answer = await app.start()
            #expect(
                answer.session.phase == .activeViaEasyAccess
                    && answer.session.accessToken?.scopes == scopes)
            #expect(program.prompts == 3)

            // Verified offline: no token; easy access makes the session active again.
            _ = await app.end(.lock)
            device.network.isDown = true
            answer = await app.start()
            #expect(answer.session.phase == .verifiedOffline && answer.session.accessToken == nil)
            #expect(answer.error == nil)
            #expect(app.encryptableLevels() == [.base, .offline])
            #expect(app.decryptableLevels(texts) == [.base, .offline])
            device.network.isDown = false
            answer = await app.start()
            #expect(answer.session.phase == .activeViaEasyAccess)
            #expect(program.prompts == 5)

            // Revoke: the token is purged from the device, and the app revoked from the server.
            let token = try #require(answer.session.accessToken)
            answer = await app.end(.destroy)
            #expect(answer.error == nil && answer.session.phase == .unregistered)
            #expect(token.value == nil)
            #expect(device.network.sent.last?.hasSuffix("/revoke") == true)
            #expect(app.decryptableLevels(texts) == [])
            #expect(throws: ProtectionError.wrongEnrolment) {
                try app.locker.decrypt(encryptedSecret: try #require(texts[.base]))
            }
            answer = await app.start()
            #expect(answer.session.phase == .activeViaStrongAuth)
            #expect(await program.logins == 2)
        }
    }

    @Test func `a call in the wrong status is an error, and the status stays`() async throws {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let app = try await start(on: device).app
            for mode in EndAuthMode.allCases {
                let ended = await app.end(mode)
                #expect(ended.error?.code == .notEnrolled && ended.session.phase == .unregistered)
                #expect(ended.isOnMainThread)
            }
            let background = await app.background()
            #expect(
                background.error?.code == .notEnrolled && background.session.phase == .unregistered)
            #expect(background.isOnMainThread)
            for answer in [await app.disable(), await app.enable(), await app.change()] {
                #expect(answer.error?.code == .notEnrolled && answer.session.phase == .unregistered)
            }
            #expect(device.network.sent.isEmpty)
            _ = await app.start()

            let stay: [(SessionPhase, () async -> Void)] = [
                (.enrolled, { _ = await app.end(.lock) }),
                (.backgroundAccess, { _ = await app.background() }),
                (
                    .verifiedOffline,
                    {
                        _ = await app.end(.lock); device.network.isDown = true;
                        _ = await app.start()
                    }
                ),
            ]
            for (phase, enter) in stay {
                await enter()
                for answer in [await app.disable(), await app.enable(), await app.change()] {
                    #expect(answer.error?.code == .notActive && answer.session.phase == phase)
                    #expect(answer.isOnMainThread)
                }
                let error = #expect(throws: ProtectionError.self) {
                    try app.locker.encrypt(secret: "s3cret", protectionLevel: .active)
                }
                #expect(error?.code == .levelNotSatisfied && error?.requiredLevel == .active)
            }
        }
    }

    @Test func `during user interaction a start is an error, and dismissUI ends the flow`()
        async throws
    {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device, [.pin(PortingDevice.pin), .hesitate])
            let app = program.app
            // No UI flow is active.
            #expect(!app.locker.isUserInteractionInProgress())
            let early = await app.dismiss()
            #expect(
                (early.error as? ErsteGroupAuthError)?.code == .noActiveUI && early.isOnMainThread)

            // The login page.
            await program.browser.leavePageOpen(true)
            var starting = Task { await app.start() }
            try await wait { await program.logins == 1 && app.locker.isUserInteractionInProgress() }
            let second = await app.start()
            #expect(
                second.error?.code == .userInteractionInProgress
                    && second.session.phase == .unregistered)
            var dismissed = await app.dismiss()
            #expect(dismissed.error == nil && dismissed.isOnMainThread)
            #expect(!app.locker.isUserInteractionInProgress())
            // Unregistered, and an error that prevented the user from going through the flow.
            var answer = await starting.value
            #expect(answer.error?.code == .userCancelled && answer.session.phase == .unregistered)
            await program.browser.leavePageOpen(false)
            _ = await app.start()

            // The prompt of easy access.
            _ = await app.end(.lock)
            starting = Task { await app.start() }
            try await wait { program.prompts == 2 && app.locker.isUserInteractionInProgress() }
            #expect(await app.start().error?.code == .userInteractionInProgress)
            // Background access needs no interaction.
            #expect(await app.background().session.phase == .backgroundAccess)
            dismissed = await app.dismiss()
            #expect(dismissed.error == nil && dismissed.session.phase == .backgroundAccess)
            answer = await starting.value
            #expect(answer.error?.code == .userCancelled && answer.isOnMainThread)
            #expect(await app.start().session.phase == .activeViaEasyAccess)
        }
    }

    @Test func `a start of an active session gets a new token, in the way that the options say`()
        async throws
    {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device) { $0.cachedSecretLife = .seconds(600) }
            let app = program.app
            let tokens = [
                await app.start().session.accessToken,
                // The required authentication level.
                await app.start(options: StartAuthSessionOptions(requiredLevel: .easyAccess))
                    .session.accessToken,
            ]
            #expect(program.phase == .activeViaEasyAccess && program.prompts == 2)
            #expect(Set(tokens.compactMap(\.self)).count == 2)
            // The cached secret, and the flag that forbids it.
            #expect(await app.start().session.accessToken?.value != nil)
            #expect(program.prompts == 2)
            #expect(
                await app.start(options: StartAuthSessionOptions(usesCachedSecret: false)).error
                    == nil)
            #expect(program.prompts == 3)
            // A custom channel with its own code and code verifier.
            let channel = BrowserChannel(program.browser)
            let before = await program.logins
            let custom = await app.start(
                options: StartAuthSessionOptions(requiredLevel: .strong) { request in
                    try await channel.authorize(request)
                }, metadata: ["reason": "payment"])
            #expect(custom.session.phase == .activeViaStrongAuth)
            #expect(await program.logins == before + 1)
            let options = StartAuthSessionOptions(requiredLevel: .strong) { _ in
                AuthorizationCode(
                    code: "forged", codeVerifier: "forged",
                    redirectURI: "http://127.0.0.1:9/callback")
            }
            #expect(await app.start(options: options).error?.code == .server)
            // The error changed nothing.
            #expect(program.phase == .activeViaStrongAuth)
            let metadata: [String: Any?] = [
                "name": "Jo", "n": 1, "list": [true, nil, 0.5], "none": nil,
            ]
            #expect(await app.start(metadata: metadata).error == nil)
            #expect(await app.start(metadata: ["date": Date()]).error?.code == .invalidInput)
            #expect(await app.background(metadata: ["date": Date()]).error?.code == .invalidInput)
        }
    }

    @Test
    func `the easy access password is revoked, enrolled and changed without a new registration`()
        async throws
    {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let steps = ["2468", "1357", "1357", "8642", "8642"].map(ScriptedPresence.Step.pin)
            let program = try await start(on: device, steps)
            let app = program.app
            _ = await app.start()
            let text = try app.locker.encrypt(secret: "s3cret", protectionLevel: .base)
            // Revoked on the server side before the callback; the enrolment stays.
            let disabled = await app.disable()
            #expect(
                disabled.error == nil && disabled.session.phase == .enrolled
                    && disabled.isOnMainThread)
            #expect(!disabled.session.isEasyAccessEnabled)
            #expect(device.network.sent.last?.hasPrefix("DELETE ") == true)
            #expect(device.network.sent.last?.hasSuffix("/easy-access") == true)
            // Strong customer authentication is necessary to get to the active state.
            let easy = await app.start(options: StartAuthSessionOptions(requiredLevel: .easyAccess))
            #expect(easy.error?.code == .easyAccessDisabled)
            #expect(await app.start().session.phase == .activeViaStrongAuth)
            #expect(await program.logins == 2)
            #expect(program.prompts == 1)
            // Another password, without another registration.
            let enabled = await app.enable()
            #expect(
                enabled.error == nil && enabled.session.isEasyAccessEnabled
                    && enabled.isOnMainThread)
            _ = await app.end(.lock)
            #expect(await app.start().session.phase == .activeViaEasyAccess)
            // A change combines both. The session is not from a login, so the user logs in.
            let changed = await app.change()
            #expect(changed.error == nil && changed.session.isActive && changed.isOnMainThread)
            #expect(await program.logins == 3)
            _ = await app.end(.lock)
            #expect(await app.start().session.phase == .activeViaEasyAccess)
            #expect(program.prompts == 5)
            #expect(device.network.sent.count { $0.hasSuffix("/enrolments") } == 1)
            #expect(try app.locker.decrypt(encryptedSecret: text) == "s3cret")
        }
    }

    @Test func `the app's delegate receives each log event with its level`() async throws {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device, [.pin(PortingDevice.pin), .decline])
            _ = await program.app.start()
            _ = await program.app.end(.lock)
            #expect(await program.app.start().error?.code == .userCancelled)
            let log = program.delegate.log
            #expect(Set(log.map(\.level)) == [.debug, .info, .warning])
            #expect(
                log.contains {
                    $0.message.contains("unregistered → activeViaStrongAuth") && $0.level == .info
                })
            #expect(log.contains { $0.message.contains("userCancelled") && $0.level == .warning })
        }
    }

    /// "If this protocol is not implemented …, then all log messages are printed using NSLog() as
    /// long as the app is build for DEBUG."
    @Test func `without a Logger, a debug build writes the messages to standard error`()
        async throws
    {
        let result = try await #require(
            processExitsWith: .success, observing: [\.standardErrorContent]
        ) {
            let directory = try TemporaryDirectory()
            let records = try RecordContainer(
                store: try await RecordStore(directory: directory.path), keystore: AbsentKeystore())
            let locker = try Locker(
                LockerConfiguration(
                    issuer: "https://id.test", clientID: "app", records: records,
                    presence: NobodyPresent(),
                    channel: BrowserChannel(ClosedBrowser())))
            try await locker.open()
        }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(text.contains("locker: opened, unregistered"), "\(text)")
    }

    private struct ClosedBrowser: Browser {
        func open(_ url: String) async throws {}
    }

    @Test func `a backup on a new device cannot be opened, and the app starts over`() async throws {
        try await PortingDevice.with(["extensions": ["locker": [String: String]()]]) { device in
            let program = try await start(on: device)
            _ = await program.app.start()
            let (backup, tpm) = (try device.directory.copyOfStore(), try await SoftwareTPM())
            let store = try await RecordStore(directory: backup.path)
            func restored() async throws -> Program {
                try await start(on: device) {
                    $0.records = try RecordContainer(
                        store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store))
                }
            }
            let error = await #expect(throws: ErsteGroupAuthError.self) { _ = try await restored() }
            #expect(error?.code == .wrongDevice)
            #expect(
                error?.recovery.contains("RecordStore.startOver()") == true,
                "\(error?.recovery ?? "")")
            try await store.startOver()
            let next = try await restored()
            #expect(next.phase == .unregistered)
            #expect(await next.app.start().session.phase == .activeViaStrongAuth)
            await tpm.cutPower()
        }
    }
}
