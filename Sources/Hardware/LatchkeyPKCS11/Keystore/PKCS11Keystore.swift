public import Latchkey

/// Keys on a PKCS#11 token: a YubiKey, a smart card, a TPM through tpm2-pkcs11, or SoftHSM2 for
/// tests.
///
/// A URI names the token (RFC 7512): `pkcs11:token=…;serial=…?module-path=…`. The token has one
/// PIN: a key with the policy `.pin` is created and used with that PIN. If the URI also has `id=`
/// or `object=`, it names a key that is on the token already; ``createKey(_:authorizedBy:)`` then
/// **adopts** that key after the same checks instead of creating one.
///
/// If a policy requires the PIN for each use, the key has `CKA_ALWAYS_AUTHENTICATE`. Where the
/// token does not support that, the login lasts for one operation. A PIN that the token refused is
/// never sent a second time.
///
/// Keystores of one process that use the same token share its thread, its session and its login.
public struct PKCS11Keystore: Keystore {
    /// The backend name in the records of these keys.
    package static let backend = "pkcs11"

    public var backend: String { Self.backend }
    public var mayHaveReader: Bool { true }

    let uri: TokenURI
    let options: PKCS11Options
    let locator: TokenLocator
    /// The last used key, decoded and checked.
    let decodedKey = Memo<HardwareKey, TokenKeyBlob>()
    /// Records the sealing keys that Latchkey generated on cards without attestation.
    let anchors: any TrustAnchors

    /// Uses the token that a URI names. Does not load the module yet.
    package init(
        uri: TokenURI, options: PKCS11Options = PKCS11Options(),
        anchors: any TrustAnchors = MemoryTrustAnchors()
    ) {
        self.uri = uri
        self.options = options
        self.anchors = anchors
        locator = TokenLocator(uri: uri, options: options.token)
    }

    /// Uses the token that a URI names. Does not load the module yet.
    ///
    /// - Parameter anchors: The store in which the keystore records a sealing key that it generates
    ///   on a card without attestation. Without the record, the keystore does not seal with such a
    ///   key, because the key may have a copy. The default keeps the record in memory, for this
    ///   keystore only.
    /// - Throws: `KeystoreError` with code `invalidInput` if the text is not the URI of a token.
    public init(
        uri: String, options: PKCS11Options = PKCS11Options(),
        anchors: any TrustAnchors = MemoryTrustAnchors()
    ) throws(KeystoreError) {
        do {
            self.init(uri: try TokenURI(uri), options: options, anchors: anchors)
        } catch {
            throw KeystoreError.invalidInput(error.reason).during("read the token's URI")
        }
    }

    public func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        do throws(KeystoreError) {
            let snapshot = try await takeSnapshot()
            let (information, profile) = (snapshot.information, snapshot.profile)
            let seals = try await keyEstablishment(on: snapshot) != nil
            let attests = try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.hasAttestationKey()
            }
            let refusals = seals ? try await sealingRefusals(on: snapshot) : [:]
            return KeystoreCapabilities(
                device:
                    "\(information.manufacturer) \(information.model) ‘\(information.label)’, serial number "
                    + "\(information.serial), firmware \(snapshot.module.text(of: information.firmwareVersion))",
                root: profile.root,
                requirements: snapshot.module.signsWithoutLogin
                    ? profile.requirements : profile.requirements.subtracting([.none]),
                sealing: seals ? profile.requirements : [], sealingRefusals: refusals,
                readsFingers: profile.verifiesUserItself,
                canAttest: attests)
        } catch {
            throw error.during("look at the token")
        }
    }

    /// Ends the login on the token for all keystores that share it, also before this one has used
    /// the token. A URI that matches several tokens ends the logins on all of them.
    public func endReuse() { LoginReuse.endAll(on: uri) }

    /// Ends the logins of all keystores of this process, also of those that no longer exist.
    /// Returns before the tokens have logged out; a use of a key until then prompts.
    package static func endAllReuse() { LoginReuse.endAll() }

    /// Ends the logins of all keystores of this process and locks their cards, for a program that
    /// ends without `exit(3)`: by `_exit(2)`, or because of a signal that it handles. `exit(3)` and
    /// the end of `main` do the same.
    ///
    /// Call it last: tokens can't be used afterwards. It blocks for up to 5 seconds while a module
    /// call is in progress, for example one that waits for a touch; a card that is still in use
    /// then stays unlocked. Do not call it in a signal handler.
    public static func lockTokensAtExit() {
        UnlockedCards.shared.lockAll()
    }

    /// Changes the label of a key in the store. The token keeps the label with which the key was
    /// created. Does not prompt.
    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        do {
            try KeyRequest.check(label: label)
            var blob = try TokenKeyBlob.of(key)
            blob.binding = KeyBinding(id: key.id, label: label)
            return key.replacing(blob: try blob.serialized(), label: label)
        } catch {
            throw error.during("rename a key")
        }
    }
}

/// How a ``PKCS11Keystore`` uses its token.
public struct PKCS11Options: Hashable, Sendable {
    /// Whether the token verifies the user itself, with a PIN pad or a fingerprint sensor.
    public enum ProtectedPath: Hashable, Sendable {
        /// As the token reports (`CKF_PROTECTED_AUTHENTICATION_PATH`).
        case asTokenSays
        /// The token verifies the user itself. Some tokens with a fingerprint sensor do not report
        /// it (YubiKey Bio).
        case always
        /// The user types the PIN at the computer.
        case never
    }

    package var token: TokenOptions
    package var protectedPath: ProtectedPath
    package var slot: PIVSlot?

    /// Creates options; by default the token's own report decides.
    ///
    /// - Parameters:
    ///   - token: How the module is loaded.
    ///   - protectedPath: Whether the token verifies the user itself.
    ///   - slot: On a PIV card, the slot for the next key; by default the first free slot that can
    ///     enforce the policy.
    public init(
        token: TokenOptions = TokenOptions(), protectedPath: ProtectedPath = .asTokenSays,
        slot: PIVSlot? = nil
    ) {
        self.token = token
        self.protectedPath = protectedPath
        self.slot = slot
    }
}

/// How a module and its tokens are used.
public struct TokenOptions: Hashable, Sendable {
    /// Whether a module runs in a separate process, which can be killed if it hangs.
    public enum Isolation: Hashable, Sendable {
        /// As the module's family and version require: OpenSC before 0.24 is isolated.
        case automatic
        /// In this process.
        case never
        /// In a separate process.
        case always
    }

    /// The maximum time for a call, by its kind.
    package struct Deadlines: Hashable, Sendable {
        /// A call that only moves data, or a read of a smart card's state through PC/SC.
        package var data: Duration
        /// A call in which the token may wait for the user: use and generation of a key, login with
        /// the token's own PIN pad.
        package var person: Duration
        /// Loading a module and `C_Initialize`.
        package var load: Duration
        /// The time after which a signature that fails for lack of a login means that the user did
        /// not touch the token.
        package var touch: Duration

        package init(
            data: Duration = .seconds(5), person: Duration = .seconds(60),
            load: Duration = .seconds(10),
            touch: Duration = .seconds(5)
        ) {
            self.data = data
            self.person = person
            self.load = load
            self.touch = touch
        }

        /// A call that only checks a PIN.
        var proof: Duration { min(data * 2, person) }

        /// How long a call waits while another thread restarts the module: `C_Finalize`,
        /// `C_Initialize`, and a second `C_Initialize` for a module that can't lock. Each call
        /// computes it. It is a sum because a product takes a microsecond.
        var restart: Duration { load + load + load + data }
    }

    package var isolation: Isolation
    package var environment: [String: String]
    package var deadlines: Deadlines
    /// The time for the system to notice that a token was removed or inserted, before the next
    /// search.
    package var settlingTime: Duration

    /// Creates options.
    ///
    /// - Parameters:
    ///   - isolation: Whether the module runs in a separate process.
    ///   - environment: Variables of the separate process in addition to those of this process, for
    ///     example `SOFTHSM2_CONF`.
    public init(isolation: Isolation = .automatic, environment: [String: String] = [:]) {
        self.init(isolation: isolation, environment: environment, deadlines: Deadlines())
    }

    package init(
        isolation: Isolation = .automatic, environment: [String: String] = [:],
        deadlines: Deadlines,
        settlingTime: Duration = .milliseconds(500)
    ) {
        self.isolation = isolation
        self.environment = environment
        self.deadlines = deadlines
        self.settlingTime = settlingTime
    }
}
