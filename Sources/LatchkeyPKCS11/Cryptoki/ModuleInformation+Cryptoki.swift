internal import CPKCS11
internal import Latchkey

extension ModuleInformation {
    init(_ info: CK_INFO) {
        manufacturer = withUnsafeBytes(of: info.manufacturerID) { String(blankPadded: $0) }
        description = withUnsafeBytes(of: info.libraryDescription) { String(blankPadded: $0) }
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
    /// Text as Cryptoki's structures have it: a fixed number of bytes of UTF-8, blank at the end and not terminated.
    /// What is no UTF-8, and what a terminal would obey, becomes `?`: that is never longer than what it stands for, so
    /// the text still fits where it came from.
    init(blankPadded bytes: UnsafeRawBufferPointer) {
        let text = bytes.prefix { $0 != 0 }
        let end = text.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? text.startIndex
        let line = String(oneLine: String(decoding: text[text.startIndex..<end], as: UTF8.self))
        self.init(String.UnicodeScalarView(line.unicodeScalars.map { $0 == "\u{FFFD}" ? "?" : $0 }))
    }
}
