import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

@testable import LatchkeyPKCS11

/// A module for YubiKeys, loaded for one test.
///
/// Modules keep the card and the pcscd that they found first. The dynamic loader treats the copy as
/// another library, without that state.
struct YubiKeyModule: Sendable {
    /// The kind of module.
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case ykcs11 = "libykcs11.so"
        case opensc = "opensc-pkcs11.so"

        var testDescription: String { rawValue }
    }

    let kind: Kind
    /// Deadlines for tests in which no module hangs.
    static let neverHanging = TokenOptions(deadlines: .hangLimit)
    /// Deadlines that a busy machine rarely reaches. A test with a module that hangs waits for
    /// them.
    static let patient = TokenOptions(
        deadlines: TokenOptions.Deadlines(
            data: .seconds(10), person: .seconds(20), load: .seconds(60)))
    /// As ``patient``, for a card whose time limit for a touch is 600 ms.
    static let reportingTouch: TokenOptions = {
        var options = patient
        options.deadlines.touch = .milliseconds(200)
        return options
    }()
    private let options: TokenOptions
    private let directory: TemporaryDirectory

    init(_ kind: Kind, options: TokenOptions = patient) throws {
        self.kind = kind
        self.options = options
        directory = try TemporaryDirectory()
        let original = URL(filePath: "/usr/lib/x86_64-linux-gnu/\(kind.rawValue)")
            .resolvingSymlinksInPath()
        try FileManager.default.copyItem(
            atPath: original.path, toPath: directory.path(of: kind.rawValue))
        try VirtualYubiKey.current.atEnd(endLogins)
    }

    /// Ends all logins, and waits until the cards are locked. Otherwise a login that a test leaves
    /// ends during a later test, on that test's card.
    @Sendable func endLogins() async {
        await LoginReuse.endAll(ofModule: directory.path(of: kind.rawValue))
    }

    /// A keystore on a card.
    ///
    /// - Parameters:
    ///   - card: nil for any card.
    ///   - slot: The slot of the key to adopt.
    ///   - newSlot: The slot for the next key.
    ///   - anchors: The store's records of generated sealing keys.
    func keystore(
        _ card: VirtualCard?, key slot: KeySlot? = nil, making newSlot: PIVSlot? = nil,
        anchors: any TrustAnchors = MemoryTrustAnchors()
    ) throws -> PKCS11Keystore {
        try PKCS11Keystore(
            uri: uri(card, key: slot),
            options: PKCS11Options(token: options, slot: newSlot), anchors: anchors)
    }

    /// ykcs11 reports the card's serial number as the token's; OpenSC uses the subject of the
    /// certificate in 9a as the label.
    func uri(_ card: VirtualCard?, key slot: KeySlot?) -> String {
        let token = card.map { card in
            kind == .ykcs11 ? "serial=\(card.profile.serialNumber)" : "token=\(Self.name(of: card))"
        }
        let id = slot.flatMap(Self.slots.firstIndex).map { "id=%0\($0 + 1)" }
        let path = directory.path(of: kind.rawValue)
        return "pkcs11:\([token, id].compactMap(\.self).joined(separator: ";"))?module-path=\(path)"
    }

    /// Creates keys with certificates in 9a, 9d and 9e with yubico-piv-tool, and gives the card a
    /// unique identity.
    static func provision(_ yubiKey: VirtualYubiKey, _ card: VirtualCard, slotOfReader: Int = 0)
        async throws
    {
        for slot in [KeySlot.authentication, .keyManagement, .cardAuthentication] {
            try await yubiKey.provision(slot, name: name(of: card), slotOfReader: slotOfReader)
        }
        try await SystemProgram("yubico-piv-tool").require(
            ["-r", SmartCardReader.name(ofSlot: slotOfReader), "-a", "set-chuid"])
    }

    /// In the order of their `CKA_ID`, from 1.
    private static let slots: [KeySlot] = [
        .authentication, .signature, .keyManagement, .cardAuthentication,
    ]

    static func name(of card: VirtualCard) -> String { "Card-\(card.profile.serialNumber)" }
}
