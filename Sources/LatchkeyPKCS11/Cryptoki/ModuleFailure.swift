/// Why a module can't be used at all.
package enum ModuleFailure: Hashable, Sendable {
    /// There is no such file.
    case missing
    /// The file is not a PKCS#11 module: no shared object, or one without `C_GetFunctionList`.
    case notAModule
    /// The file is a shared object for another processor.
    case wrongArchitecture
    /// The file is another user's, or others can write it: it would run with this program's rights and see PINs.
    case writableByOthers
    /// The dynamic loader refuses it, for example because a library that it needs is missing.
    case unloadable
    /// `C_Initialize` answered with that code.
    case initializeFailed(ReturnValue)
    /// It did not come back from loading or from `C_Initialize`.
    case hanging
    /// The process that isolates it could not be started.
    case notIsolated
}
