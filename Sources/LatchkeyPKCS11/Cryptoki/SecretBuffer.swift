internal import Glibc

/// Room for a private value that must not be there, cleared afterwards in case it was.
final class SecretBuffer {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)

    deinit {
        if let base = bytes.baseAddress { explicit_bzero(base, bytes.count) }
        bytes.deallocate()
    }
}
