internal import Glibc

/// Waits for bytes from a descriptor until a deadline, or until somebody wakes it. Blocks its thread.
struct PatientReader {
    enum Event {
        /// This many bytes came.
        case bytes(Int)
        case end
        /// The wake-up pipe had this byte.
        case woken(UInt8)
        case late
        /// `errno`.
        case failed(Int32)
    }

    let descriptor: Int32
    let wakeUp: WakeUp
    let deadline: ContinuousClock.Instant

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Event {
        while true {
            let now = ContinuousClock.now
            guard now < deadline else { return .late }
            let milliseconds = min((deadline - now) / .milliseconds(1), Double(Int32.max - 1)).rounded(.up)
            var watched = [
                pollfd(fd: wakeUp.readEnd, events: Int16(POLLIN), revents: 0),
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            ]
            let ready = poll(&watched, nfds_t(watched.count), Int32(milliseconds))
            if ready < 0, errno != EINTR { return .failed(errno) }
            guard ready > 0 else { continue }
            var byte: UInt8 = 0
            if watched[0].revents != 0, Glibc.read(wakeUp.readEnd, &byte, 1) == 1 { return .woken(byte) }
            guard watched[1].revents != 0 else { continue }
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            if errno != EINTR, errno != EAGAIN { return .failed(errno) }
        }
    }

    /// One byte at a time, so that nothing is read ahead of what is asked for.
    func readByte() -> (event: Event, byte: UInt8) {
        var byte: UInt8 = 0
        let event = withUnsafeMutableBytes(of: &byte) { read(into: $0) }
        return (event, byte)
    }
}
