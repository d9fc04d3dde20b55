extension TokenInformation {
    /// What a token lives in, where that is software: `swtpm` or `softhsm`; nil for hardware.
    ///
    /// The token is asked as well as its module, since p11-kit-proxy passes on tokens of any module under its own name.
    /// Software that says so is believed: SoftHSM2, and behind tpm2-pkcs11, which passes on its TPM's manufacturer and
    /// vendor string, the reference implementation that swtpm is. Of a module that is not known to drive hardware, a token
    /// whose slot does not claim to be hardware is taken for software too, and called `softhsm` whatever it is: the
    /// word for a token that is worth what its host is worth.
    func simulator(behind profile: ModuleProfile) -> String? {
        if manufacturer.hasPrefix("IBM"), model.hasPrefix("SW") { return "swtpm" }
        let isSoftHSM = manufacturer == "SoftHSM project" || model.hasPrefix("SoftHSM")
        if profile.family == .softhsm || isSoftHSM { return "softhsm" }
        return profile.family == .generic && !isInHardwareSlot ? "softhsm" : nil
    }
}
