internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// Checks a module's file before it is loaded, so that each cause of failure has its own error.
enum SharedObject {
    /// The head of an ELF file (System V ABI, "ELF Header"): magic, class, data, …, type, machine.
    /// 20 bytes.
    private static let headSize = 20
    private static let sharedObject: UInt16 = 3
    /// p11-kit's library, which is also the file of `p11-kit-proxy.so`; without symbolic links.
    static let p11Kit = latchkey_p11_kit_file().flatMap { try? Module.resolve(String(cString: $0)) }

    /// - Throws: `module` with `missing`, `notAModule`, `writableByOthers` or `wrongArchitecture`.
    static func check(_ path: String) throws(CryptokiError) {
        let head = try head(of: path)
        guard head.count == headSize, head.starts(with: [0x7f, 0x45, 0x4c, 0x46]),
            number(head, at: 16) == sharedObject
        else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) is not a shared object")
        }
        try checkOwner(of: path)
        let own = try Self.head(of: "/proc/self/exe")
        guard own.count == headSize, head[4..<6] == own[4..<6],
            number(head, at: 18) == number(own, at: 18)
        else {
            throw CryptokiError(
                .module(.wrongArchitecture), reason: "\(path) is for another processor")
        }
    }

    /// Opens the file and checks that it has `C_GetFunctionList`. It is never closed: unloading a
    /// module would crash the threads that it started.
    static func open(_ path: String) throws(CryptokiError) {
        guard let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
            let text = dlerror().map { String(cString: $0) } ?? "the loader reports no cause"
            throw CryptokiError(.module(.unloadable), reason: "\(path) can't be loaded: \(text)")
        }
        guard dlsym(handle, "C_GetFunctionList") != nil else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) has no C_GetFunctionList")
        }
    }

    /// A user who can write the file, or replace it, can read every PIN: only root and the current
    /// user may be able to.
    private static func checkOwner(of path: String) throws(CryptokiError) {
        do throws(CommonError) {
            try TrustedFile.check(path)
        } catch {
            throw CryptokiError(
                .module(.writableByOthers),
                reason:
                    "\(path) can be changed by users other than root and this user, who could read each PIN: \(error.reason)"
            )
        }
    }

    private static func head(of path: String) throws(CryptokiError) -> [UInt8] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw unreadable(path) }
        defer { close(descriptor) }
        var head = [UInt8](repeating: 0, count: headSize)
        let count = read(descriptor, &head, headSize)
        return Array(head.prefix(max(0, count)))
    }

    private static func unreadable(_ path: String) -> CryptokiError {
        CryptokiError(
            .module(.missing), reason: "\(path) can't be read: \(SystemError.last)")
    }

    /// A 16-bit number in the machine's byte order; a file in the other order fails the comparison
    /// of `EI_DATA`.
    private static func number(_ head: [UInt8], at index: Int) -> UInt16 {
        head.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: index, as: UInt16.self) }
    }
}

extension SharedObject {
    /// Whether the file contains the name that OpenSC's modules report, whatever it is called. The
    /// module's own description then decides.
    static func mayNeedIsolation(_ path: String) -> Bool { file(path, has: "OpenSC") }

    /// Whether a file contains a text.
    static func file(_ path: String, has text: String) -> Bool {
        guard let file = FileManager.default.contents(atPath: path) else { return false }
        return file.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> Bool in
            contains(bytes, Array(text.utf8))
        }
    }

    private static func contains(_ bytes: UnsafeRawBufferPointer, _ text: [UInt8]) -> Bool {
        guard let base = bytes.baseAddress, let first = text.first else { return false }
        var start = 0
        while start + text.count <= bytes.count {
            let most: Int = bytes.count - text.count - start + 1
            guard let found = memchr(base + start, Int32(first), most) else { return false }
            if memcmp(found, text, text.count) == 0 { return true }
            start = base.distance(to: UnsafeRawPointer(found)) + 1
        }
        return false
    }
}
