/// Whose PIN is changed.
package enum PINScope: Sendable {
    /// That of everything in the container that has its PIN.
    case container
    /// One key's.
    case key(KeyID)
    /// That of the protection classes: of vaults and credentials.
    case classes

    func includes(_ key: KeyID) -> Bool {
        switch self {
        case .container: true
        case .key(let one): one == key
        case .classes: false
        }
    }

    var includesClasses: Bool {
        switch self {
        case .container, .classes: true
        case .key: false
        }
    }
}
