/// What a module says of itself: `C_GetInfo` (PKCS#11 2.40 section 5.4). Blank padding is removed.
package struct ModuleInformation: Hashable, Sendable {
    /// At most 32 bytes, for example `SoftHSM`.
    package let manufacturer: String
    /// At most 32 bytes, for example `Implementation of PKCS11`.
    package let description: String
    /// The library's version, major and minor.
    package let version: Version
    /// The version of the standard that it speaks.
    package let cryptokiVersion: Version

    /// `CK_VERSION`.
    package struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        /// The number before the point.
        package let major: UInt8
        /// The number after the point, as the module gives it: 40 in 2.40.
        package let minor: UInt8

        /// A version of two numbers.
        package init(major: UInt8, minor: UInt8) {
            self.major = major
            self.minor = minor
        }

        package var description: String { "\(major).\(minor)" }

        package static func < (left: Version, right: Version) -> Bool {
            (left.major, left.minor) < (right.major, right.minor)
        }
    }
}
