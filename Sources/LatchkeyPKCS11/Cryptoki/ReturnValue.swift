/// What a Cryptoki function answered: `CK_RV` (PKCS#11 2.40 section 5.1). Values that the standard doesn't name survive.
package struct ReturnValue: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt

    package init(rawValue: UInt) { self.rawValue = rawValue }
}
