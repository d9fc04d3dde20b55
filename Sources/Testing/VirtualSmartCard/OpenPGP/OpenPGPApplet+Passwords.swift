/// The references of the passwords (section 4.3).
enum OpenPGPPassword: UInt8 {
    /// PW1 for a signature.
    case signature = 0x81
    /// PW1 for the other keys.
    case user = 0x82
    /// PW3.
    case administrator = 0x83
}

extension OpenPGPApplet {
    /// VERIFY (section 7.2.2). With P1 FF it logs out; without data it reads the state.
    mutating func verify(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) {
        guard let password = OpenPGPPassword(rawValue: p2) else { throw .incorrectParameters }
        switch (p1, data.isEmpty) {
        case (0xFF, true): session.verified.remove(password)
        case (0x00, true):
            guard session.verified.contains(password) else { throw secret(of: password).status }
        case (0x00, false):
            session.verified.remove(password)
            try check(password) { (secret: inout CountedSecret) throws(StatusWord) in
                try secret.verify(data[...])
            }
            session.verified.insert(password)
        default: throw .incorrectParameters
        }
    }

    /// CHANGE REFERENCE DATA (section 7.2.3). The data is the old password, whose length the card
    /// knows, and the new password.
    mutating func changeReferenceData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) {
        guard p1 == 0, let password = OpenPGPPassword(rawValue: p2), password != .user else {
            throw .incorrectParameters
        }
        if password == .signature { session.verified.subtract([.signature, .user]) }
        let length = secret(of: password).value.count
        try check(password) { (secret: inout CountedSecret) throws(StatusWord) in
            try secret.change(from: data.prefix(length), to: data.dropFirst(length))
        }
    }

    /// RESET RETRY COUNTER (section 7.2.4) after PW3 was verified. The data is the new PW1.
    mutating func resetRetryCounter(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) {
        guard [0x00, 0x02].contains(p1), p2 == OpenPGPPassword.signature.rawValue else {
            throw .incorrectParameters
        }
        // P1 00 uses the resetting code, which this card does not have.
        guard p1 == 0x02 else { throw .authenticationBlocked }
        try require(.administrator)
        try userPassword.reset(to: data[...])
    }

    /// Checks that a password was verified.
    func require(_ password: OpenPGPPassword) throws(StatusWord) {
        guard session.verified.contains(password) else { throw .securityStatusNotSatisfied }
    }

    private func secret(of password: OpenPGPPassword) -> CountedSecret {
        password == .administrator ? administratorPassword : userPassword
    }

    /// Uses a password. The status word for a wrong password is 6982, without the number of
    /// attempts left.
    private mutating func check(
        _ password: OpenPGPPassword, _ use: (inout CountedSecret) throws(StatusWord) -> Void
    ) throws(StatusWord) {
        do throws(StatusWord) {
            if password == .administrator {
                try use(&administratorPassword)
            } else {
                try use(&userPassword)
            }
        } catch {
            throw error.isWrongSecret ? .securityStatusNotSatisfied : error
        }
    }
}
