internal import CLibP11
internal import FoundationEssentials
internal import Latchkey

/// One module as libp11 sees it: a context, and the slots as they were when it was made.
///
/// libp11 0.4.12 can't be tidied up after: `PKCS11_CTX_unload` finalizes the module under everybody,
/// `PKCS11_release_all_slots` closes everybody's sessions and takes the ground from under keys that are still in use, and
/// `PKCS11_update_slots` uses freed memory (`reference/pkcs11.md` sections 1.1 and 1.2). So a context is made, used,
/// and **abandoned**: it is never unloaded, freed, released or updated. It costs a few kilobytes.
///
/// Its calls block, and one for which the token gives no session blocks for ever: make them on an operating system
/// thread, under a deadline, and only after a session was opened directly.
final class LibP11Context {
    let pointer: UnsafeMutablePointer<PKCS11_CTX>
    private let slots: UnsafeMutableBufferPointer<PKCS11_SLOT>

    /// Loads a module that the direct side has initialised, and looks at its slots.
    init(modulePath: String) throws(CryptokiError) {
        LibP11Error.clear()
        guard let pointer = PKCS11_CTX_new() else { throw LibP11Error.take("PKCS11_CTX_new") }
        self.pointer = pointer
        ContextProof.withdraw(from: pointer)
        guard PKCS11_CTX_load(pointer, modulePath) == 0 else { throw LibP11Error.take("PKCS11_CTX_load") }
        var first: UnsafeMutablePointer<PKCS11_SLOT>?
        var count: UInt32 = 0
        guard PKCS11_enumerate_slots(pointer, &first, &count) == 0 else {
            throw LibP11Error.take("PKCS11_enumerate_slots")
        }
        slots = UnsafeMutableBufferPointer(start: first, count: Int(count))
    }

    /// The tokens that were in the slots.
    var tokens: [LibP11Token] {
        slots.indices.compactMap { index in
            guard let slot = slots.baseAddress?.advanced(by: index), let token = slot.pointee.token else { return nil }
            return LibP11Token(context: self, slot: slot, token: token)
        }
    }

    /// The one token that says of itself what the direct side was told.
    func token(_ information: TokenInformation) throws(CryptokiError) -> LibP11Token {
        let fitting = tokens.filter { $0.identity == LibP11Token.Identity(information) }
        guard let token = fitting.first else {
            throw CryptokiError(.tokenAbsent, function: "PKCS11_enumerate_slots", reason: "the token is gone")
        }
        guard fitting.count == 1 else {
            throw CryptokiError(
                .tokenAmbiguous, function: "PKCS11_enumerate_slots",
                reason: "\(fitting.count) tokens have the label ‘\(information.label)’ and the serial number"
                    + " ‘\(information.serial)’")
        }
        return token
    }
}
