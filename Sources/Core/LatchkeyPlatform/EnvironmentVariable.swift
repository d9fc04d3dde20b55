internal import CPlatform
internal import Glibc

/// A variable of this process's environment that is set while other threads read the environment;
/// see CPlatform's `environment.h`.
package struct EnvironmentVariable {
    private let entry: UnsafeMutablePointer<CChar>

    /// Sets a variable. An earlier entry with its name is hidden until ``unset()``. The memory of the
    /// entry is never freed.
    ///
    /// - Parameter entry: `NAME=value`.
    /// - Returns: nil without memory.
    @discardableResult
    package init?(setting entry: String) {
        guard let copy = strdup(entry), latchkey_environment_change(copy, nil) != 0 else {
            return nil
        }
        self.entry = copy
    }

    /// Removes the variable.
    package func unset() { _ = latchkey_environment_change(nil, entry) }
}
