internal import Foundation
internal import Glibc
internal import LatchkeyPlatform
package import LatchkeySimulators
internal import Synchronization
internal import Testing

/// A proxy between programs and a software TPM that injects a fault at one command. It implements
/// the `swtpm` TCTI.
package final class FaultyTPM: Sendable {
    /// A fault at one command.
    package enum Fault: Hashable, Sendable {
        /// The connection breaks before the TPM gets the command.
        case lostCommand
        /// The TPM executes the command, and the connection breaks before the response.
        case lostAnswer
        /// The response is delayed by this number of milliseconds.
        case late(Int)
        /// One bit of the response is flipped, in the byte at this distance from the end.
        case flippedBit(fromEnd: Int)
        /// The response lacks this number of bytes at the end, and the connection breaks.
        case cutAnswer(Int)
        /// The response lacks this number of bytes at the end, with a matching size in its header.
        case shortAnswer(Int)
        /// The proxy answers this response code to the command, and to later commands with the same
        /// code, this number of times.
        case code(UInt32, times: Int)
        /// The proxy answers with the response to the previous command; the TPM does not get this
        /// command.
        case stale
        /// The TPM executes the command, but the proxy answers with the response to an earlier
        /// command with the same code.
        case replayed
        /// The TPM gets a request for one value only, so that it returns one and says that it has
        /// more (`TPM2_GetCapability` without a session). At all commands with the code.
        case oneValue
        /// The TPM restarts before the command and loses its loaded objects.
        case reset
    }

    private struct State {
        var index = 0
        var fault: (index: Int, fault: Fault)?
        var left = 0
        /// The code of the command with the fault.
        var faultyCommand: UInt32?
        var commands: [UInt32] = []
        var last: [UInt8] = []
        var answers: [UInt32: [UInt8]] = [:]
    }

    /// The TCTI configuration for programs.
    package let tcti: String
    private let directory: TemporaryDirectory
    private let listener: Int32
    private let target: String
    private let state = Mutex(State())
    private let reset: @Sendable () -> Void

    /// - Parameter reset: Restarts the TPM for the fault ``Fault/reset``; it may block.
    package init(_ tpm: SoftwareTPM, reset: @escaping @Sendable () -> Void = {}) throws {
        directory = try TemporaryDirectory()
        self.reset = reset
        target = try #require(tpm.tcti.split(separator: "=").last.map(String.init))
        let path = directory.path(of: "tpm")
        tcti = "swtpm:path=\(path)"
        // The control channel goes to the TPM directly.
        try FileManager.default.createSymbolicLink(
            atPath: "\(path).ctrl", withDestinationPath: "\(target).ctrl")
        listener = try #require(try UNIXSocketAddress(path: path)?.boundSocket())
        try #require(listen(listener, 16) == 0)
        let descriptor = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { break }
                guard let self else {
                    close(connection)
                    continue
                }
                Thread.detachNewThread { self.serve(connection) }
            }
            close(descriptor)
        }
    }

    deinit {
        // accept(2) fails after this, and the accepting thread closes the descriptor.
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// The command codes (TPM 2.0 Part 2 section 6.5.2) since the count started.
    package var commands: [UInt32] { state.withLock { $0.commands } }

    /// Restarts the count.
    ///
    /// - Parameter index: The index of the command with the fault, counted from 0.
    package func arm(_ fault: Fault? = nil, at index: Int = 0) {
        state.withLock { state in
            (state.index, state.commands, state.faultyCommand) = (0, [], nil)
            state.fault = fault.map { (index, $0) }
            state.left =
                switch fault {
                case .code(_, let times): times
                case .oneValue: .max
                default: 1
                }
        }
    }

    /// Restarts the count, with a fault at the first commands with a given code.
    ///
    /// - Parameter command: The command code (TPM 2.0 Part 2 section 6.5.2).
    package func arm(_ fault: Fault, atCommand command: UInt32) {
        arm(fault, at: -1)
        state.withLock { $0.faultyCommand = command }
    }

    private func serve(_ connection: Int32) {
        defer { endSocket(connection) }
        while let command = Self.message(from: connection) {
            guard let answer = answer(to: command), Self.send(answer.bytes, to: connection),
                !answer.isLast
            else {
                return
            }
        }
    }

    /// - Returns: nil if there is no response.
    private func answer(to command: [UInt8]) -> (bytes: [UInt8], isLast: Bool)? {
        var command = command
        let code = Self.number(command[6..<10])
        let fault = state.withLock { state -> Fault? in
            defer {
                state.commands.append(code)
                state.index += 1
            }
            guard let fault = state.fault, state.left > 0,
                state.faultyCommand == code
                    || state.faultyCommand == nil && fault.index == state.index
            else { return nil }
            state.left -= 1
            state.faultyCommand = code
            return fault.fault
        }
        switch fault {
        case .lostCommand: return nil
        case .code(let code, _): return (Self.response(code), false)
        case .stale: return state.withLock { ($0.last, false) }
        case .reset: reset()
        case .oneValue where command[1] == 1: command.replaceSubrange(18..<22, with: [0, 0, 0, 1])
        case .replayed:
            let earlier = state.withLock { $0.answers[code] }
            guard let answer = exchange(command, code) else { return nil }
            return (earlier ?? answer, false)
        default: break
        }
        guard var answer = exchange(command, code) else { return nil }
        switch fault {
        case .lostAnswer: return nil
        case .late(let milliseconds): usleep(UInt32(milliseconds) * 1000)
        case .flippedBit(let distance):
            answer[max(10, answer.count - 1 - distance) % answer.count] ^= 0x10
        case .cutAnswer(let count): return (answer.dropLast(count), true)
        case .shortAnswer(let count):
            answer = answer.dropLast(min(count, answer.count - 10))
            answer.replaceSubrange(
                2..<6, with: withUnsafeBytes(of: UInt32(answer.count).bigEndian, Array.init))
        default: break
        }
        return (answer, false)
    }

    /// Sends the command to the TPM.
    private func exchange(_ command: [UInt8], _ code: UInt32) -> [UInt8]? {
        guard let descriptor = try? UNIXSocketAddress(path: target)?.connectedSocket() else {
            return nil
        }
        defer { close(descriptor) }
        guard Self.send(command, to: descriptor), let answer = Self.message(from: descriptor) else {
            return nil
        }
        state.withLock { state in
            state.last = answer
            state.answers[code] = answer
        }
        return answer
    }

    // MARK: Messages

    private static func response(_ code: UInt32) -> [UInt8] {
        [0x80, 0x01, 0, 0, 0, 10] + withUnsafeBytes(of: code.bigEndian, Array.init)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Reads a command or a response; the header contains its size.
    private static func message(from descriptor: Int32) -> [UInt8]? {
        guard let head = read(10, from: descriptor) else { return nil }
        guard let rest = read(Int(number(head[2..<6])) - 10, from: descriptor) else { return nil }
        return head + rest
    }

    private static func read(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        guard (0...8192).contains(count) else { return nil }
        var bytes: [UInt8] = []
        while bytes.count < count {
            var part = [UInt8](repeating: 0, count: count - bytes.count)
            let got = recv(descriptor, &part, part.count, 0)
            guard got > 0 else { return nil }
            bytes += part.prefix(got)
        }
        return bytes
    }

    private static func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }
}

/// A generator of reproducible random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
package struct SplitMix: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator. Equal seeds give equal numbers.
    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
