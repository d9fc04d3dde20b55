internal import CPKCS11
internal import Latchkey

/// A module's description of itself: `C_GetInfo` (PKCS#11 2.40 section 5.4), without blank padding.
package struct ModuleInformation: Hashable, Sendable {
    /// At most 32 bytes, for example `SoftHSM`.
    package let manufacturer: String
    /// At most 32 bytes, for example `Implementation of PKCS11`.
    package let description: String
    /// The library's version, major and minor.
    package let version: Version
    /// The version of the standard that it implements.
    package let cryptokiVersion: Version

    /// `CK_VERSION`.
    package struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        /// The number before the point.
        package let major: UInt8
        /// The number after the point: 40 in 2.40.
        package let minor: UInt8

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

extension ModuleInformation {
    init(_ info: CK_INFO) {
        manufacturer = String(blankPadded: info.manufacturerID)
        description = String(blankPadded: info.libraryDescription)
        version = Version(info.libraryVersion)
        cryptokiVersion = Version(info.cryptokiVersion)
    }
}

extension ModuleInformation.Version {
    init(_ version: CK_VERSION) {
        self.init(major: version.major, minor: version.minor)
    }
}

extension String {
    /// Reads a text field of Cryptoki's structures.
    init<Field>(blankPadded field: Field) {
        self = withUnsafeBytes(of: field) { String(blankPadded: $0) }
    }

    /// Reads text of Cryptoki's structures: a fixed number of bytes of UTF-8, padded with blanks
    /// and not terminated. Invalid UTF-8 and control characters become `?`, so that the text never
    /// gets longer.
    init(blankPadded bytes: UnsafeRawBufferPointer) {
        let text = bytes.prefix { $0 != 0 }
        let end = text.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? text.startIndex
        let line = String(oneLine: String(decoding: text[text.startIndex..<end], as: UTF8.self))
        self.init(String.UnicodeScalarView(line.unicodeScalars.map { $0 == "\u{FFFD}" ? "?" : $0 }))
    }
}
