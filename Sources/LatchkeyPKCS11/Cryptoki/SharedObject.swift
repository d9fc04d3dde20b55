internal import Glibc

/// Looks at a module's file before anybody runs it, so that each way of being no module has its own error.
enum SharedObject {
    /// The head of an ELF file (System V ABI, "ELF Header"): magic, class, data, …, type, machine. 20 bytes.
    private static let headSize = 20
    private static let sharedObject: UInt16 = 3

    /// - Throws: `module` with `missing`, `notAModule`, `writableByOthers` or `wrongArchitecture`.
    static func check(_ path: String) throws(CryptokiError) {
        let head = try head(of: path)
        guard head.count == headSize, head.starts(with: [0x7f, 0x45, 0x4c, 0x46]),
            number(head, at: 16) == sharedObject
        else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) is no shared object")
        }
        try checkOwner(of: path)
        let own = try Self.head(of: "/proc/self/exe")
        guard own.count == headSize, head[4..<6] == own[4..<6], number(head, at: 18) == number(own, at: 18) else {
            throw CryptokiError(.module(.wrongArchitecture), reason: "\(path) is for another processor")
        }
    }

    /// Opens the file and looks for the one function that makes a module. It stays open for good: threads that modules
    /// start don't survive being unloaded.
    static func open(_ path: String) throws(CryptokiError) {
        guard let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
            let text = dlerror().map { String(cString: $0) } ?? "the loader does not say why"
            throw CryptokiError(.module(.unloadable), reason: "\(path) can't be loaded: \(text)")
        }
        guard dlsym(handle, "C_GetFunctionList") != nil else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) has no C_GetFunctionList")
        }
    }

    /// Whoever can write the file reads every PIN: nobody may but root and the user whom the program runs as.
    private static func checkOwner(of path: String) throws(CryptokiError) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw CryptokiError(
                .module(.missing), reason: "\(path) can't be looked at: \(String(cString: strerror(errno)))")
        }
        guard status.st_uid == 0 || status.st_uid == geteuid(), status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw CryptokiError(
                .module(.writableByOthers),
                reason: "\(path) can be changed by others than root and this user, who would see each PIN")
        }
    }

    private static func head(of path: String) throws(CryptokiError) -> [UInt8] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw CryptokiError(
                .module(.missing), reason: "\(path) can't be read: \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        var head = [UInt8](repeating: 0, count: headSize)
        let count = read(descriptor, &head, headSize)
        return Array(head.prefix(max(0, count)))
    }

    /// A 16-bit number in the machine's own order; a file in the other order fails the comparison of `EI_DATA`.
    private static func number(_ head: [UInt8], at index: Int) -> UInt16 {
        head.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: index, as: UInt16.self) }
    }
}
