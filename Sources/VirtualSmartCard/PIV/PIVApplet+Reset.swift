extension PIVApplet {
    /// Yubico's RESET: allowed when the PIN and the PUK are both blocked. Everything is as from the factory
    /// afterwards, but for the attestation key, which stays.
    mutating func reset() throws(StatusWord) -> Outcome {
        guard pin.isBlocked, puk.isBlocked else { throw .conditionsNotSatisfied }
        let attestation = keys[.attestation]
        let tag = KeySlot.attestation.certificateObject
        let certificate = objects[tag]
        pin = CountedSecret(CardProfile.defaultPIN)
        puk = CountedSecret(CardProfile.defaultPUK)
        managementKey = ManagementKey(factory: profile.managementKeyAlgorithm)
        keys = [:]
        objects = [:]
        keys[.attestation] = attestation
        objects[tag] = certificate
        session = PIVSession()
        session.application = .piv
        return .done
    }
}
