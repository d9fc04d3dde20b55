internal import CPlatform
internal import Glibc

/// Waits for descriptors (poll(2)).
package enum Poll {
    /// The events that ended a wait.
    package struct Readiness: Hashable, Sendable {
        /// The reported events of each descriptor, in order; 0 for a descriptor without an event.
        package let events: [Int32]
        /// Whether the wake-up has bytes.
        package let isWoken: Bool
        /// Whether the wait ended at its deadline.
        package var isLate: Bool { !isWoken && events.allSatisfy { $0 == 0 } }
    }

    /// Waits on the calling thread until a descriptor is ready, the wake-up has bytes, or the
    /// deadline has passed.
    ///
    /// - Parameters:
    ///   - descriptors: Each with its events, for example `POLLIN`. Hang-ups and errors are always
    ///     reported. A negative descriptor is ignored.
    ///   - deadline: nil to wait without a limit. With a past deadline the call does not wait, and
    ///     reports what is ready.
    ///   - wakeUp: Ends the wait. Its bytes stay in it.
    package static func wait(
        for descriptors: [(descriptor: Int32, events: Int32)],
        until deadline: ContinuousClock.Instant?, wakeUp: WakeUp? = nil
    ) throws(SystemError) -> Readiness {
        var entries = descriptors.map {
            pollfd(fd: $0.descriptor, events: Int16(truncatingIfNeeded: $0.events), revents: 0)
        }
        entries.append(pollfd(fd: wakeUp?.descriptor ?? -1, events: Int16(POLLIN), revents: 0))
        while true {
            let count = poll(&entries, nfds_t(entries.count), milliseconds(until: deadline))
            guard count >= 0 else {
                guard errno == EINTR else { throw .last }
                continue
            }
            // Before the deadline, the time was too long for one call.
            if count == 0, let deadline, ContinuousClock.now < deadline { continue }
            return Readiness(
                events: entries.dropLast().map { Int32($0.revents) },
                isWoken: entries[descriptors.count].revents != 0)
        }
    }

    /// Waits for one descriptor.
    ///
    /// - Returns: false at the deadline.
    package static func wait(
        for descriptor: Int32, _ events: Int32, until deadline: ContinuousClock.Instant?
    ) throws(SystemError) -> Bool {
        try !wait(for: [(descriptor, events)], until: deadline).isLate
    }

    /// Rounded up, so that the deadline has passed after the time.
    private static func milliseconds(until deadline: ContinuousClock.Instant?) -> Int32 {
        guard let deadline else { return -1 }
        let left = max((deadline - .now) / .milliseconds(1), 0)
        return Int32(min(left, Double(Int32.max - 1)).rounded(.up))
    }
}

/// A pipe that ends a wait of ``Poll``, from any thread or from a signal's handler.
///
/// A process without free descriptors gets one that is not open and never ends a wait.
package final class WakeUp: Sendable {
    /// The end to poll.
    package let descriptor: Int32
    /// The end to write, for a signal's handler.
    package let writeEnd: Int32

    package init() {
        var ends: [Int32] = [-1, -1]
        latchkey_pipe2(&ends, O_CLOEXEC | O_NONBLOCK)
        (descriptor, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        close(descriptor)
        close(writeEnd)
    }

    package var isOpen: Bool { descriptor >= 0 }

    /// Ends the current wait and all later ones, until the byte is taken.
    package func wake(_ byte: UInt8 = 0) {
        var byte = byte
        _ = write(writeEnd, &byte, 1)
    }

    /// Removes the first byte.
    ///
    /// - Returns: nil if there is no byte.
    package func take() -> UInt8? {
        var byte: UInt8 = 0
        return read(descriptor, &byte, 1) == 1 ? byte : nil
    }

    /// Removes all bytes.
    package func clear() { while take() != nil {} }
}

extension Poll {
    /// Sends all bytes over a connected socket. A closed connection causes no signal.
    ///
    /// - Parameter deadline: The end of the waits for a socket that does not block.
    /// - Returns: false if the connection has ended, or after the deadline.
    package static func send(
        _ bytes: some Collection<UInt8>, to descriptor: Int32,
        until deadline: ContinuousClock.Instant? = nil
    ) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count == 0 || errno != EINTR {
                guard count < 0, errno == EAGAIN,
                    (try? wait(for: descriptor, POLLOUT, until: deadline)) == true
                else { return false }
            }
        }
        return true
    }
}
