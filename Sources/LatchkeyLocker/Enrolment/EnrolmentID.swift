internal import Latchkey

/// The names of enrolments.
enum EnrolmentID {
    /// The name that a device's enrolment will have: the thumbprint of the device's key with SHA-256 (RFC 7638 section 3),
    /// 43 characters of base64url.
    static func name(for deviceKey: PublicKey) -> String { deviceKey.thumbprint }

    /// Whether the text has 8 to 64 characters of `A–Z a–z 0–9 _ -`.
    static func isValid(_ text: String) -> Bool {
        (8...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}
