internal import CPKCS11

extension TokenInformation {
    init(_ info: CK_TOKEN_INFO) {
        label = withUnsafeBytes(of: info.label) { String(blankPadded: $0) }
        manufacturer = withUnsafeBytes(of: info.manufacturerID) { String(blankPadded: $0) }
        model = withUnsafeBytes(of: info.model) { String(blankPadded: $0) }
        serial = withUnsafeBytes(of: info.serialNumber) { String(blankPadded: $0) }
        flags = Flags(rawValue: info.flags)
        // Modules write 0, 255 and CK_UNAVAILABLE_INFORMATION here; what is no range says nothing.
        let most = 4096
        let length = (Int(clamping: info.ulMinPinLen), Int(clamping: info.ulMaxPinLen))
        pinLength = (1...most).contains(length.1) && length.0 <= length.1 ? length.0...length.1 : nil
        hardwareVersion = ModuleInformation.Version(info.hardwareVersion)
        firmwareVersion = ModuleInformation.Version(info.firmwareVersion)
    }

    /// The same as Cryptoki has it, for p11-kit's matching.
    var cryptokiInfo: CK_TOKEN_INFO {
        var info = CK_TOKEN_INFO()
        withUnsafeMutableBytes(of: &info.label) { $0.fill(blankPadding: label) }
        withUnsafeMutableBytes(of: &info.manufacturerID) { $0.fill(blankPadding: manufacturer) }
        withUnsafeMutableBytes(of: &info.model) { $0.fill(blankPadding: model) }
        withUnsafeMutableBytes(of: &info.serialNumber) { $0.fill(blankPadding: serial) }
        info.flags = flags.rawValue
        return info
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Writes text as Cryptoki's structures have it. What is too long is cut.
    fileprivate func fill(blankPadding text: String) {
        initializeMemory(as: UInt8.self, repeating: 0x20)
        copyBytes(from: text.utf8.prefix(count))
    }
}
