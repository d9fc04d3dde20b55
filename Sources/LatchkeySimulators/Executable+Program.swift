internal import Subprocess
internal import SystemPackage

extension Executable {
    /// A path, or a name to be found in `PATH`.
    init(_ program: String) {
        self = program.contains("/") ? .path(FilePath(program)) : .name(program)
    }
}
