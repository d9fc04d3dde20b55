internal import Glibc

/// A failed call of the operating system, by its `errno`. Its description is the system's text, for
/// example `Permission denied`.
package struct SystemError: Error, Hashable, CustomStringConvertible {
    package let number: Int32

    package init(_ number: Int32) { self.number = number }

    /// The error of the calling thread's last failed call.
    package static var last: SystemError { SystemError(errno) }

    package var description: String { String(cString: strerror(number)) }
}
