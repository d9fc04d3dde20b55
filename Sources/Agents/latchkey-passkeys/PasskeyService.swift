import Latchkey
import LatchkeyPasskeys
import LatchkeyPlatform
import LatchkeyPresence
import Logging

/// Serves the user's device: passes the relay's packets to the authenticator, and its packets to
/// the relay.
struct PasskeyService: Sendable {
    let connection: RelayConnection
    let authenticator: Authenticator
    /// Ends the running request when the session of its window locks.
    let observer: SessionLockObserver
    /// The X11 display of the windows.
    let display: String?
    let log: Logger

    /// Serves until the connection ends or the task is cancelled, which closes the prompt of the
    /// running request. Without a request, only a thread waits for a packet.
    ///
    /// - Parameter ready: Called when packets are received.
    func run(ready: () -> Void) async throws(KeystoreError) {
        let connection = connection
        let (messages, received) = AsyncStream.makeStream(
            of: RelayConnection.Message.self, bufferingPolicy: .bufferingNewest(1024))
        // This thread only drains the socket: the kernel's queue behind it has 31 places. If there
        // are more packets than the device handles, the first ones are lost: the last message may
        // be that all programs have closed the device.
        let isStarted = BlockingThread.start {
            while let message = connection.receive() { received.yield(message) }
            received.finish()
        }
        guard isStarted else {
            throw KeystoreError(
                code: .transient, reason: "the system could not start a thread",
                recovery: "End other programs.")
        }
        let device = PasskeyHIDDevice(authenticator) { connection.send($0) }
        let locks = Task { [observer, display, log] in
            await observer.repeatedly { session in
                // The lock or the end of another session does not hide the window.
                if let session {
                    guard await observer.isLocked(display: display, locking: session) else {
                        return
                    }
                }
                await device.cancelRequest()
            } onFirstFailure: {
                log.notice("\($0) A running request continues when the session locks.")
            }
        }
        defer { locks.cancel() }
        ready()
        for await message in messages {
            guard !Task.isCancelled else { break }
            switch message {
            case .packet(let packet): await device.receive(packet)
            case .disconnection: await device.disconnect()
            }
        }
        await device.close()
    }
}
