/// What a module says of itself: `C_GetInfo` (PKCS#11 2.40 section 5.4). Blank padding is removed.
public struct ModuleInformation: Hashable, Sendable {
    /// At most 32 bytes, for example `SoftHSM`.
    public let manufacturer: String
    /// At most 32 bytes, for example `Implementation of PKCS11`.
    public let description: String
    /// The library's version, major and minor.
    public let version: Version
    /// The version of the standard that it speaks.
    public let cryptokiVersion: Version

    /// `CK_VERSION`.
    public struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        /// The number before the point.
        public let major: UInt8
        /// The number after the point, as the module gives it: 40 in 2.40.
        public let minor: UInt8

        /// A version of two numbers.
        public init(major: UInt8, minor: UInt8) {
            self.major = major
            self.minor = minor
        }

        public var description: String { "\(major).\(minor)" }

        public static func < (left: Version, right: Version) -> Bool {
            (left.major, left.minor) < (right.major, right.minor)
        }
    }
}
