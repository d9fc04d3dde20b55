internal import Glibc
internal import Latchkey

/// One line for a person, on a terminal or on standard error. When it can't be written, nothing happens: the hardware
/// waits all the same.
struct NoticeLine {
    private let bytes: [UInt8]

    init(_ notice: PresenceNotice) {
        bytes = Array("\(PromptWording.text(of: notice))\n".utf8)
    }

    func write(to descriptor: Int32) {
        _ = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }

    func write(toDeviceAt path: String) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        write(to: descriptor)
    }
}
