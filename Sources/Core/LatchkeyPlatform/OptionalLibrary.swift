internal import Glibc

/// A library that programs can do without. It stays loaded.
package struct OptionalLibrary {
    /// The library, or one of its functions, is missing. The description is the loader's text.
    package struct Missing: Error, CustomStringConvertible {
        package let description: String
    }

    private let handle: UnsafeMutableRawPointer

    /// - Parameter file: For example `libp11.so.3`.
    package init(_ file: String) throws(Missing) {
        guard let handle = dlopen(file, RTLD_NOW | RTLD_LOCAL) else { throw Self.missing(file) }
        self.handle = handle
    }

    /// A function by its name. `F` must be its C type, for example `@convention(c) () -> Int32`.
    package func function<F>(_ name: String) throws(Missing) -> F {
        guard let symbol = dlsym(handle, name) else { throw Self.missing(name) }
        return unsafeBitCast(symbol, to: F.self)
    }

    private static func missing(_ name: String) -> Missing {
        Missing(description: dlerror().map { String(cString: $0) } ?? "\(name) is missing")
    }
}
