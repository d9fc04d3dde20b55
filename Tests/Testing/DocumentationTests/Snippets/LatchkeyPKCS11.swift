import Latchkey
import LatchkeyPKCS11

/// The keystore of the YubiKey with this serial number.
func openYubiKey(serial: String) throws -> PKCS11Keystore {
    try PKCS11Keystore(
        uri: "pkcs11:serial=\(serial)?module-path=/usr/lib/x86_64-linux-gnu/libykcs11.so")
}
