internal import Glibc

/// Clears memory in a way that the optimizer keeps.
func wipeMemory(_ buffer: UnsafeMutableRawBufferPointer) {
    if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
}
