internal import Dispatch
internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// A UNIX socket on which other programs control a card: one request per line, answered by one JSON
/// object per line.
///
/// ```console
/// $ echo 'touch wait' | socat - UNIX-CONNECT:card.sock
/// {"done":true}
/// ```
///
/// Only its owner can connect (mode 0600). It closes and deletes its file when the last reference
/// is released.
package final class ControlSocket: Sendable {
    private let socket: ListeningSocket

    /// The reason why the socket could not be opened.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Opens the socket and answers requests.
    ///
    /// - Parameter path: At most 107 bytes. Replaces a socket on which no program listens.
    /// - Throws: ``Failure`` if a program listens there already, another file exists there, or the
    ///   socket could not be created.
    package init(path: String, card: VirtualCard) throws(Failure) {
        guard let address = UNIXSocketAddress(path: path) else {
            throw Failure(
                description: "the path of the control socket is not 1 to 107 bytes long: \(path)")
        }
        do throws(SystemError) {
            socket = try address.listeningSocket(queue: 8)
        } catch {
            throw Failure(description: "could not open the control socket \(path): \(error)")
        }
        DispatchQueue(label: "latchkey.card.control").async { [socket] in
            while let client = try? ListeningSocket.accept(on: socket.descriptor) {
                let connection = StreamSocket(owning: client)
                DispatchQueue.global().async { Self.serve(connection, card) }
            }
        }
    }

    // The wait for connections ends after this.
    deinit { socket.shutDown() }

    private static func serve(_ connection: StreamSocket, _ card: VirtualCard) {
        var pending: [UInt8] = []
        while let more = connection.receive(atMost: longestLine) {
            pending += more
            while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: pending[..<end], as: UTF8.self)
                pending.removeSubrange(...end)
                guard let answer = try? ControlAnswer(to: line, card: card).line,
                    connection.send(answer)
                else {
                    return
                }
            }
            guard pending.count <= longestLine else { return }
        }
    }

    private static let longestLine = 256
}

/// A request on the control socket.
enum ControlRequest: Hashable {
    /// `touch auto|deny|wait`
    case touch(TouchMode)
    /// `press`
    case press
    /// `eject`
    case eject
    /// `insert`
    case insert
    /// `fail SLOT STATUS`, both hexadecimal: `fail 9a 6f00`
    case fail(KeySlot, StatusWord)
    /// `status`
    case status

    /// - Returns: nil if the line is not a request.
    init?(_ line: String) {
        let words = line.split(separator: " ").map(String.init)
        switch (words.first, words.count) {
        case ("touch", 2):
            guard let mode = TouchMode(rawValue: words[1]) else { return nil }
            self = .touch(mode)
        case ("press", 1): self = .press
        case ("eject", 1): self = .eject
        case ("insert", 1): self = .insert
        case ("fail", 3):
            guard
                let slot = UInt8(words[1], radix: 16).flatMap(KeySlot.init(rawValue:)),
                let status = UInt16(words[2], radix: 16)
            else { return nil }
            self = .fail(slot, StatusWord(rawValue: status))
        case ("status", 1): self = .status
        default: return nil
        }
    }
}

/// The answer to a request on the control socket.
struct ControlAnswer: Encodable {
    /// The answer to `status`.
    struct Status: Encodable {
        let commands: Int
        let firmware: String
        let inserted: Bool
        let instructions: [String: Int]
        let powerCycles: Int
        let serial: UInt32
        let touch: String
        let waitingForTouch: Bool

        init(_ card: VirtualCard) {
            let statistics = card.statistics
            commands = statistics.commands
            firmware = card.profile.firmware.description
            inserted = card.isInserted
            instructions = statistics.instructions
            powerCycles = statistics.powerCycles
            serial = card.profile.serialNumber
            touch = card.touch.rawValue
            waitingForTouch = card.isWaitingForTouch
        }
    }

    let done: Bool
    var error: String?
    var status: Status?

    /// Performs the request on a line.
    init(to line: String, card: VirtualCard) {
        switch ControlRequest(line) {
        case .touch(let mode): card.touch = mode
        case .press: error = card.press() ? nil : "no key is waiting for a touch"
        case .eject: card.eject()
        case .insert: card.insert()
        case .fail(let slot, let status): card.failNextUse(of: slot, with: status)
        case .status: status = Status(card)
        case nil:
            error = "one of: touch auto|deny|wait, press, eject, insert, fail SLOT STATUS, status"
        }
        done = error == nil
    }

    /// The JSON and a newline.
    var line: [UInt8] {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
        }
    }
}
