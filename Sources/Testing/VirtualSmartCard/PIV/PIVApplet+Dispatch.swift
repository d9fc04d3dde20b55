extension PIVApplet {
    package mutating func perform(_ command: CommandAPDU, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        let (instruction, p1, p2) = (
            Instruction(rawValue: command.instruction), command.p1, command.p2
        )
        // The PIN policy "always" requires VERIFY directly before the use.
        defer { if instruction != .verify { session.isPINFresh = false } }
        switch (session.application, instruction) {
        case (_, .select): return try select(p1: p1, data)
        case (.oneTimePassword, .oneTimePasswordRequest):
            guard p1 == 0x10 else { throw .incorrectParameters }
            return .data(profile.serialBytes)
        case (.piv, _): break
        default: throw .unknownInstruction
        }
        if [.moveKey, .attest, .setRetries].contains(instruction), !profile.model.hasAllAdditions {
            throw .unknownInstruction
        }
        return switch instruction {
        case .verify: try verify(p1: p1, p2: p2, data)
        case .changeReferenceData: try changeReferenceData(p1: p1, p2: p2, data)
        case .resetRetryCounter: try resetRetryCounter(p1: p1, p2: p2, data)
        case .getData: try getData(p1: p1, p2: p2, data)
        case .putData: try putData(p1: p1, p2: p2, data)
        case .generateKeyPair: try generateKeyPair(p1: p1, p2: p2, data)
        case .generalAuthenticate: try generalAuthenticate(p1: p1, p2: p2, data)
        case .importKey: try importKey(p1: p1, p2: p2, data)
        case .moveKey: try moveKey(p1: p1, p2: p2)
        case .getMetadata: try getMetadata(p2: p2)
        case .attest: try attest(p1: p1)
        case .setManagementKey: try setManagementKey(p1: p1, p2: p2, data)
        case .setRetries: try setRetries(p1: p1, p2: p2)
        case .reset: try reset()
        case .getVersion: .data(profile.firmware.bytes)
        case .getSerialNumber: try getSerialNumber()
        case .select, .getResponse, .oneTimePasswordRequest, nil: throw .unknownInstruction
        }
    }

    // MARK: - Applications

    /// SELECT (SP 800-73-4 Part 2 section 3.1.1). Selecting another application clears the session,
    /// as on a YubiKey.
    private mutating func select(p1: UInt8, _ data: [UInt8]) throws(StatusWord) -> CommandOutcome {
        guard p1 == 0x04, data.count >= 5 else { throw .notFound }
        if Self.pivIdentifier.starts(with: data) {
            // Selecting the current application again keeps the security status (SP 800-73-4 Part 2
            // section 3.1.1). A CanoKey clears the status.
            if session.application != .piv || profile.model != .yubiKey {
                session = PIVSession(application: .piv)
            }
            return .data(Self.applicationProperties)
        }
        guard Self.oneTimePasswordIdentifier.starts(with: data), profile.model.hasAllAdditions
        else { throw .notFound }
        session = PIVSession(application: .oneTimePassword)
        // The version, the programming sequence and the state of two empty slots.
        return .data(profile.firmware.bytes + [0, 0, 0])
    }

    /// Yubico's GET SERIAL NUMBER, since 5.0.
    private func getSerialNumber() throws(StatusWord) -> CommandOutcome {
        guard profile.firmware >= Firmware(5, 0, 0) else { throw .unknownInstruction }
        return .data(profile.serialBytes)
    }

    /// SP 800-73-4 Part 1 section 2.2.
    private static let pivIdentifier: [UInt8] = [
        0xA0, 0x00, 0x00, 0x03, 0x08, 0x00, 0x00, 0x10, 0x00, 0x01, 0x00,
    ]
    private static let oneTimePasswordIdentifier: [UInt8] = [
        0xA0, 0x00, 0x00, 0x05, 0x27, 0x20, 0x01, 0x01,
    ]
    /// The application property template 61 (SP 800-73-4 Part 2 table 3): the application's version
    /// and its tag allocation authority.
    private static let applicationProperties = TLV(
        0x61,
        [
            TLV(0x4F, [0x00, 0x00, 0x10, 0x00, 0x01, 0x00]),
            TLV(0x79, TLV(0x4F, [0xA0, 0x00, 0x00, 0x03, 0x08]).bytes),
        ].bytes
    ).bytes
}
