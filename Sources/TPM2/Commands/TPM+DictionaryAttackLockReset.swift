extension TPM {
    /// `TPM2_DictionaryAttackLockReset` (Part 3 section 25.4): an administrator's way out of a lockout. A wrong
    /// lockoutAuth shuts this way for hours; nothing in Latchkey takes it.
    public func dictionaryAttackLockReset(authorizedBy authorization: Authorization) throws(TPMError) {
        try execute(.dictionaryAttackLockReset, on: [Hierarchy.lockout], authorizedBy: [authorization])
    }
}
