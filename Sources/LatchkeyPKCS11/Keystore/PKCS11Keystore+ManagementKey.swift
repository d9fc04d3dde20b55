internal import Latchkey

extension PKCS11Keystore {
    /// YubiKeys have an AES-192 management key from firmware 5.7 on (Yubico, 5.7 release notes), written 5.70 by ykcs11.
    private static let firmwareWithAES = ModuleInformation.Version(major: 5, minor: 70)

    /// What a refused management key means where the module can't use that of such a card, whatever is typed: it answers
    /// as to a wrong one.
    func refusedManagementKey(
        _ error: CryptokiError, _ operation: String, _ sight: TokenSight
    ) -> KeystoreError? {
        guard error.returnValue == .pinIncorrect, let version = sight.token.profile.wantsVersionForAES,
            sight.information.firmwareVersion >= Self.firmwareWithAES
        else { return nil }
        return KeystoreError(
            operation: operation, code: .unsupported,
            reason:
                "this version of ykcs11 can use no AES management key, which YubiKeys have from firmware 5.7 on; or it "
                + "is a 3DES key and was wrong",
            recovery: "Install ykcs11 \(version) or newer, or give the card a 3DES management key (`ykman piv access "
                + "change-management-key --algorithm TDES`), or make the key with `ykman piv keys generate` and adopt it.",
            underlying: KeystoreError.Underlying(error))
    }
}
