internal import CPKCS11

/// A module's functions, as p11-kit manages them.
///
/// Safe to share: the list is written before anybody sees it, never again, and never freed. What may be called from
/// which thread is for ``Caller`` and ``Module`` to say.
struct FunctionList: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<CK_FUNCTION_LIST>
}
