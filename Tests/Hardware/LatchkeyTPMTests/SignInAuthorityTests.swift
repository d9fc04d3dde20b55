import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// What the TPM enforces at a sign-in.
@Suite(.softwareTPM)
struct SignInAuthorityTests {
    private static let user: UInt32 = 1000
    private static let secret = SecretBytes(repeatElement(UInt8(7), count: 32))
    private static let wrong = PIN.digits("000000")
    private static let right = PIN.digits("493817")

    /// A broker with a user whose PIN is set, and the commands that it sends.
    private static func with(
        allowed: Bool = true, _ body: (ApprovalAuthority, Wire, String) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let wire = Wire()
            let authority = try await wire.authority(tpm, in: directory.path)
            try await authority.setPIN(right, of: user)
            if allowed { try await authority.allowSignIn(of: user, with: right) }
            wire.forget()
            try await body(authority, wire, directory.path)
            try Scene.expectNothingLoaded("after the test")
        }
    }

    @Test func `a check of the PIN takes two commands`() async throws {
        try await Self.with { authority, wire, _ in
            let secret = try await authority.signIn(
                of: Self.user, with: Self.right, opening: nil)
            #expect(secret == nil)
            #expect(wire.codes == [.startAuthSession, .nvRead])
        }
    }

    @Test func `opening a secret with the PIN takes six commands, and no further check`()
        async throws
    {
        try await Self.with { authority, wire, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            wire.forget()
            let opened = try await authority.signIn(
                of: Self.user, with: Self.right, opening: sealed)
            #expect(opened == Self.secret)
            #expect(
                wire.codes == [
                    .startAuthSession, .startAuthSession, .policySecret, .policyOR, .load, .unseal,
                    .flushContext,
                ])
            #expect(!wire.bytes.contains(Array(repeating: 7, count: 32)), "encrypted on the bus")
        }
    }

    @Test func `opening a secret after a finger takes seven commands`() async throws {
        try await Self.with { authority, wire, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            wire.forget()
            #expect(try await authority.openAfterFinger(sealed, of: Self.user) == Self.secret)
            #expect(
                wire.codes == [
                    .startAuthSession, .startAuthSession, .sign, .policySigned, .policyOR, .load,
                    .unseal, .flushContext,
                ])
            #expect(!wire.bytes.contains(Array(repeating: 7, count: 32)), "encrypted on the bus")
        }
    }

    @Test func `another program that removed the broker's key does not prevent a finger`()
        async throws
    {
        try await Self.with { authority, wire, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            try await authority.work { (tpm, store) in
                let handle = try #require(try tpm.authorityHandle(store))
                let key = try TPMObject(
                    handle: handle, publicArea: PublicArea(unmarshalling: store.existing.publicArea)
                )
                try tpm.execute(EvictControl(key, at: handle))
            }
            #expect(try await authority.openAfterFinger(sealed, of: Self.user) == Self.secret)
        }
    }

    @Test(arguments: [false, true])
    func `wrong PINs are counted for the user alone, and lock the PIN`(_ opens: Bool) async throws {
        try await Self.with { authority, _, _ in
            let sealed =
                opens
                ? try await authority.sealForSignIn(Self.secret, with: Self.right, of: Self.user)
                : nil
            func attempt(_ pin: PIN) async -> KeystoreError? {
                await Scene.error { () async throws(KeystoreError) in
                    _ = try await authority.signIn(of: Self.user, with: pin, opening: sealed)
                }
            }
            for left in (1..<10).reversed() {
                let error = await attempt(Self.wrong)
                #expect(error?.code == .wrongProof)
                #expect(error?.attemptsLeft == left)
            }
            #expect(await attempt(Self.wrong)?.code == .lockedOut)
            #expect(await attempt(Self.right)?.code == .lockedOut)
            try await authority.setPIN(Self.right, of: 1001)
            try await authority.allowSignIn(of: 1001, with: Self.right)
            #expect(try await authority.signIn(of: 1001, with: Self.right, opening: nil) == nil)
            if let sealed {
                #expect(try await authority.openAfterFinger(sealed, of: Self.user) == Self.secret)
            }
            try await authority.resetPIN(of: Self.user)
            #expect(await attempt(Self.right) == nil)
        }
    }

    /// The broker finds out that a PIN is set with a wrong attempt of its own.
    @Test(arguments: [(4, 4), (12, 10)] as [(Int, UInt32)])
    func `the broker's first look at a PIN keeps the count of earlier attempts`(
        _ attempts: Int, _ counted: UInt32
    ) async throws {
        try await Self.with(allowed: false) { authority, _, _ in
            try await authority.work { (tpm, store) in
                let pin = try #require(store.user(Self.user).pin)
                for _ in 0..<attempts { #expect(try !tpm.holds(Data([1]), pin, store)) }
            }
            #expect(try await authority.pinIndex(of: Self.user) != nil)
            try await authority.work { (tpm, store) in
                let pin = try #require(store.user(Self.user).pin)
                #expect(try tpm.count(of: pin, store).failures == counted)
            }
        }
    }

    @Test func `a PIN that nobody allowed does not sign in`() async throws {
        try await Self.with(allowed: false) { authority, wire, _ in
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.signIn(of: Self.user, with: Self.right, opening: nil)
            }
            #expect(error?.code == .refused)
            #expect(wire.codes == [], "the PIN is not sent")
            #expect(authority.signIn(of: Self.user) == nil)
            try await authority.allowSignIn(of: Self.user, with: Self.right)
            #expect(authority.signIn(of: Self.user)?.hasPIN == true)
            try await authority.denySignIn(of: Self.user)
            #expect(authority.signIn(of: Self.user) == nil)
        }
    }

    @Test func `another account with the user's number has no permission`() async throws {
        try await Self.with { authority, wire, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            wire.forget()
            #expect(authority.signIn(of: Self.user, named: "carol") == nil)
            let pin = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.signIn(
                    of: Self.user, named: "carol", with: Self.right, opening: sealed)
            }
            let finger = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.openAfterFinger(sealed, of: Self.user, named: "carol")
            }
            #expect(pin?.code == .refused && finger?.code == .refused)
            #expect(wire.codes == [])
            try await authority.denySignIn(of: Self.user, named: "carol")
            #expect(authority.signIn(of: Self.user, named: "ann") != nil)
            try await authority.denySignIn(of: Self.user, named: "ann")
            #expect(authority.signIn(of: Self.user, named: "ann") == nil)
        }
    }

    /// A program of the user with access to the TPM can remove the index, and set a first PIN.
    @Test func `a PIN that was removed and set again does not sign in, and opens nothing`()
        async throws
    {
        try await Self.with { authority, _, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            try await authority.removePIN(of: Self.user)
            try await authority.setPIN(Self.wrong, of: Self.user)
            #expect(authority.signIn(of: Self.user)?.hasPIN == false)
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.signIn(of: Self.user, with: Self.wrong, opening: sealed)
            }
            #expect(error?.code == .refused)
            #expect(authority.opensWithPIN(sealed, of: Self.user) == nil)
            // The permission for it opens nothing that was sealed under the other PIN.
            try await authority.allowSignIn(of: Self.user, with: Self.wrong)
            #expect(
                try await authority.signIn(of: Self.user, with: Self.wrong, opening: sealed) == nil)
        }
    }

    /// It removes the index after the user typed the PIN, and sets its own before the secret is
    /// sealed.
    @Test func `a secret is sealed only under the PIN that was checked`() async throws {
        try await Self.with { authority, wire, _ in
            try await authority.removePIN(of: Self.user)
            try await authority.setPIN(Self.wrong, of: Self.user)
            wire.forget()
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.sealForSignIn(
                    Self.secret, with: Self.right, of: Self.user)
            }
            #expect(error?.code == .wrongProof)
            #expect(!wire.codes.contains(.create), "the secret is not sent")
        }
    }

    /// The password is checked before, and takes time.
    @Test func `a PIN that was replaced meanwhile is not allowed`() async throws {
        try await Self.with(allowed: false) { authority, _, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            try await authority.removePIN(of: Self.user)
            #expect(
                authority.opensWithPIN(sealed, of: Self.user) == true,
                "the broker does not know it yet")
            #expect(try await !authority.allowSignIn(of: Self.user, sealedIn: sealed))
            try await authority.setPIN(Self.wrong, of: Self.user)
            #expect(try await !authority.allowSignIn(of: Self.user, sealedIn: sealed))
            #expect(authority.signIn(of: Self.user) == nil)
        }
    }

    @Test func `a PIN that may not sign in opens the secret for another copy`() async throws {
        try await Self.with(allowed: false) { authority, _, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            #expect(
                try await authority.open(sealed, with: Self.right, of: Self.user) == Self.secret)
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.open(sealed, with: Self.wrong, of: Self.user)
            }
            #expect(error?.code == .wrongProof)
            try await authority.removePIN(of: Self.user)
            try await authority.setPIN(Self.wrong, of: Self.user)
            #expect(try await authority.open(sealed, with: Self.wrong, of: Self.user) == nil)
        }
    }

    @Test func `another user's secret opens neither with the PIN nor after a finger`() async throws
    {
        try await Self.with { authority, _, _ in
            try await authority.setPIN(Self.right, of: 1001)
            try await authority.allowSignIn(of: 1001, with: Self.right)
            let sealed = try await authority.sealForSignIn(Self.secret, with: Self.right, of: 1001)
            #expect(authority.opensWithPIN(sealed, of: Self.user) == nil)
            #expect(
                try await authority.signIn(of: Self.user, with: Self.right, opening: sealed) == nil)
            #expect(try await authority.openAfterFinger(sealed, of: Self.user) == nil)
            // The TPM refuses the approval, if a faulty broker tries it.
            let blob = try JSONDecoder().decode(SignInBlob.self, from: sealed)
            let finger = await Scene.error { () async throws(KeystoreError) in
                try await authority.work { (tpm, store) in
                    let record = try #require(store.user(1001).pin)
                    _ = try tpm.open(blob, byFingerOf: Self.user, record, store)
                }
            }
            #expect("\(try #require(finger))".contains("0x99d"), "TPM_RC_POLICY_FAIL")
        }
    }

    /// Without a PIN in the TPM. A program of the user sets a first one later.
    @Test func `a secret for a finger alone opens after a finger, and allows no PIN`() async throws
    {
        try await Self.with(allowed: false) { authority, wire, _ in
            try await authority.removePIN(of: Self.user)
            #expect(try await authority.pinIndex(of: Self.user) == nil)
            let sealed = try await authority.sealForSignIn(Self.secret, with: nil, of: Self.user)
            #expect(authority.opensWithPIN(sealed, of: Self.user) == false)
            #expect(authority.opensWithPIN(sealed, of: 1001) == nil)
            #expect(try await authority.allowSignIn(of: Self.user, sealedIn: sealed))
            wire.forget()
            #expect(try await authority.openAfterFinger(sealed, of: Self.user) == Self.secret)
            #expect(
                wire.codes == [
                    .startAuthSession, .startAuthSession, .sign, .policySigned, .load, .unseal,
                    .flushContext,
                ])
            try await authority.setPIN(Self.wrong, of: Self.user)
            #expect(try await authority.allowSignIn(of: Self.user, sealedIn: sealed))
            #expect(authority.signIn(of: Self.user)?.hasPIN == false)
            #expect(try await authority.open(sealed, with: Self.wrong, of: Self.user) == nil)
            #expect(try await authority.open(sealed, with: nil, of: Self.user) == Self.secret)
            // A claim that the PIN opens it too is compared with the public area.
            let blob = try JSONDecoder().decode(SignInBlob.self, from: sealed)
            let claim = try JSONEncoder().encode(
                SignInBlob(
                    hasPIN: true, publicArea: blob.publicArea, privatePart: blob.privatePart))
            #expect(authority.opensWithPIN(claim, of: Self.user) == nil)
            #expect(try await !authority.allowSignIn(of: Self.user, sealedIn: claim))
        }
    }

    @Test func `after a restart of the broker the permission and the secret are the same`()
        async throws
    {
        try await Self.with { authority, wire, directory in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            let later = try await wire.authority(try SoftwareTPM.current, in: directory)
            #expect(
                try await later.signIn(of: Self.user, with: Self.right, opening: sealed)
                    == Self.secret)
        }
    }

    @Test(arguments: [
        "", "{}", "[1]", #"{"version":1,"hasPIN":true,"publicArea":"AAAA","privatePart":"AAAA"}"#,
    ])
    func `bytes that are no sealed secret are refused before the PIN is sent`(_ text: String)
        async throws
    {
        try await Self.with { authority, wire, _ in
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.signIn(
                    of: Self.user, with: Self.right, opening: Data(text.utf8))
            }
            #expect(error?.code == .damaged)
            #expect(wire.codes == [])
        }
    }

    /// For example after the TPM was cleared: the wrap under the password remains.
    @Test func `the right PIN signs in also if the TPM does not open the secret`() async throws {
        try await Self.with { authority, _, _ in
            let sealed = try await authority.sealForSignIn(
                Self.secret, with: Self.right, of: Self.user)
            var blob = try JSONDecoder().decode(SignInBlob.self, from: sealed)
            blob = SignInBlob(
                hasPIN: true, publicArea: blob.publicArea,
                privatePart: Data(blob.privatePart.map { $0 ^ 1 }))
            let damaged = try JSONEncoder().encode(blob)
            #expect(
                try await authority.signIn(of: Self.user, with: Self.right, opening: damaged) == nil
            )
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await authority.signIn(of: Self.user, with: Self.wrong, opening: damaged)
            }
            #expect(error?.code == .wrongProof)
        }
    }
}

extension PIN {
    fileprivate static func digits(_ text: String) -> PIN {
        guard let pin = try? PIN(text) else { preconditionFailure("\(text) is no PIN") }
        return pin
    }
}

extension ApprovalAuthority {
    // The account that has each number in these tests.
    fileprivate func signIn(of user: UInt32) -> SignInPermission? { signIn(of: user, named: "ann") }
    fileprivate func signIn(of user: UInt32, with pin: PIN, opening sealed: Data?)
        async throws(KeystoreError) -> SecretBytes?
    {
        try await signIn(of: user, named: "ann", with: pin, opening: sealed)
    }
    fileprivate func allowSignIn(of user: UInt32, sealedIn sealed: Data)
        async throws(KeystoreError) -> Bool
    {
        try await allowSignIn(of: user, named: "ann", sealedIn: sealed)
    }
    fileprivate func openAfterFinger(_ sealed: Data, of user: UInt32) async throws(KeystoreError)
        -> SecretBytes?
    {
        try await openAfterFinger(sealed, of: user, named: "ann")
    }

    /// Allows the PIN by a secret that is sealed under it.
    fileprivate func allowSignIn(of user: UInt32, with pin: PIN) async throws {
        let sealed = try await sealForSignIn(.random(count: 32), with: pin, of: user)
        #expect(try await allowSignIn(of: user, sealedIn: sealed))
    }

    /// Removes the index of the PIN, as a program with access to the TPM can.
    fileprivate func removePIN(of user: UInt32) async throws {
        try await work { (tpm, store) in
            let pin = try #require(store.user(user).pin)
            try tpm.execute(NVUndefineSpace(try NVIndex(unmarshalling: pin.publicArea)))
        }
    }

    /// Sets the first PIN, as the user's programs do.
    func setPIN(_ pin: PIN, of user: UInt32) async throws {
        let unset = try await makePIN(for: user)
        try await work { (tpm, store) in
            let index = try PresenceProtection.UserPIN(unset.pin)
            let initial = unset.initialValue.withUnsafeBytes { AuthValue($0) } ?? .empty
            try tpm.changeIndexPIN(
                of: index.index, index.branches, from: initial, to: index.authValue(pin),
                under: StorageRoot(anchor: store.existing.root))
        }
    }
}

extension Wire {
    /// A broker whose connections to the TPM go through this.
    fileprivate func authority(_ tpm: SoftwareTPM, in directory: String) async throws
        -> ApprovalAuthority
    {
        try await ApprovalAuthority(directory: directory) { () throws(TPMError) in
            try self.transport(tpm)
        }
    }
}
