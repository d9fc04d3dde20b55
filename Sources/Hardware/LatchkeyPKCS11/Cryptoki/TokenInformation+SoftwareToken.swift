extension TokenInformation {
    /// The kind of a software token: `swtpm` or `softhsm`; nil for hardware.
    ///
    /// Checks the token in addition to its module, since p11-kit-proxy shows tokens of any module
    /// under its own name. SoftHSM2 reports its own name. tpm2-pkcs11 reports its TPM's
    /// manufacturer and vendor string, which identify swtpm. With a module that is not known to use
    /// hardware, a token whose slot does not report to be hardware also counts as software, and is
    /// called `softhsm`: its keys are only as safe as the computer.
    func simulator(behind profile: ModuleProfile) -> String? {
        if manufacturer.hasPrefix("IBM"), model.hasPrefix("SW") { return "swtpm" }
        if isSoftHSM { return "softhsm" }
        switch profile.family {
        case .softhsm: return "softhsm"
        case .generic: return isInHardwareSlot ? nil : "softhsm"
        case .ykcs11, .opensc, .tpm2: return nil
        }
    }

    /// Whether SoftHSM2 provides the token, also behind another module.
    var isSoftHSM: Bool { manufacturer == "SoftHSM project" || model.hasPrefix("SoftHSM") }
}
