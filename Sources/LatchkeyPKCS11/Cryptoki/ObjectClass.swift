/// `CK_OBJECT_CLASS`, as far as this layer looks at it.
enum ObjectClass: UInt, Sendable {
    case certificate = 1
    case publicKey = 2
    case privateKey = 3
    case secretKey = 4
}
