/// An application on a card, as a function of commands.
///
/// An applet does no I/O and does not wait. If a key requires a touch, the caller waits for it:
///
/// After `touchRequired`, `finish(touched:)` returns the response.
package protocol CardApplet: Sendable {
    /// The card's model and serial number.
    var profile: CardProfile { get }
    /// The parts of commands and responses.
    var transport: CommandTransport { get set }

    /// Performs a command whose parts are complete.
    mutating func perform(_ command: CommandAPDU, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    /// Clears the session, as a loss of power does.
    mutating func powerCycle()
    /// Remembers a touch, for keys that require none for some time after it.
    mutating func rememberTouch()
}

/// A permitted use of a private key, which may still require a touch. Returns the response's data.
package typealias PrivateKeyUse = @Sendable () throws(StatusWord) -> [UInt8]

/// The result of a permitted command.
package enum CommandOutcome {
    case data([UInt8])
    case touchRequired(PrivateKeyUse)

    static let done = CommandOutcome.data([])
}

/// The result of a command.
package enum CommandReply: Hashable, Sendable {
    /// The response with its status word, at most 65538 bytes.
    case response([UInt8])
    /// The key requires a touch. Wait for it, then call ``CardApplet/finish(touched:)``.
    case touchRequired
}

extension CardApplet {
    /// Answers a command.
    ///
    /// - Parameter bytes: The command, of any content and length.
    package mutating func respond(to bytes: [UInt8]) -> CommandReply {
        transport.pending = nil
        do throws(StatusWord) {
            let command = try CommandAPDU(bytes)
            if command.instruction == Instruction.getResponse.rawValue {
                return .response(try transport.nextPart(limit: command.responseLimit))
            }
            transport.discardResponse()
            guard command.baseClass == 0 else { throw .unknownClass }
            guard let data = try transport.assemble(command) else {
                return .response(StatusWord.success.bytes)
            }
            switch try perform(command, data) {
            case .data(let result):
                return .response(transport.firstPart(of: result, limit: command.responseLimit))
            case .touchRequired(let operation):
                transport.pending = (operation, command.responseLimit)
                return .touchRequired
            }
        } catch {
            return .response(error.bytes)
        }
    }

    /// Answers the command that required a touch.
    ///
    /// - Parameter touched: Whether the user touched the key in time.
    /// - Returns: The response; the model's status word without a touch, and
    ///   ``StatusWord/conditionsNotSatisfied`` if no command requires one.
    package mutating func finish(touched: Bool) -> [UInt8] {
        guard let (operation, limit) = transport.pending else {
            return StatusWord.conditionsNotSatisfied.bytes
        }
        transport.pending = nil
        guard touched else { return profile.model.missingTouchStatus.bytes }
        rememberTouch()
        do throws(StatusWord) {
            return transport.firstPart(of: try operation(), limit: limit)
        } catch {
            return error.bytes
        }
    }
}

/// The parts of chained commands (ISO/IEC 7816-4 section 5.1.1.1) and of long responses (section
/// 7.6.1).
package struct CommandTransport: Sendable {
    /// The operation that waits for a touch.
    var pending: (operation: PrivateKeyUse, responseLimit: Int)?
    /// The instruction of a chained command and the data so far.
    private var chain: (instruction: UInt8, data: [UInt8])?
    /// The rest of the response, for GET RESPONSE.
    private var remainder: ArraySlice<UInt8> = []

    /// The maximum length of a chained command in bytes. The largest PIV object has 3052 bytes,
    /// without tags.
    private static let longestCommand = 4096

    /// Adds a part to a chained command.
    ///
    /// - Returns: The whole command's data; nil while parts are missing.
    /// - Throws: ``StatusWord/wrongLength`` if the command is too long. Its parts are then
    ///   discarded.
    mutating func assemble(_ command: CommandAPDU) throws(StatusWord) -> [UInt8]? {
        let earlier = chain.flatMap { $0.instruction == command.instruction ? $0.data : nil } ?? []
        chain = nil
        let data = earlier + command.data
        guard data.count <= Self.longestCommand else { throw .wrongLength }
        guard command.isChained else { return data }
        chain = (command.instruction, data)
        return nil
    }

    /// The first `limit` bytes of a response. Its status word tells how many bytes remain.
    mutating func firstPart(of response: [UInt8], limit: Int) -> [UInt8] {
        remainder = response.dropFirst(limit)
        let status = remainder.isEmpty ? StatusWord.success : .remaining(remainder.count)
        return response.prefix(limit) + status.bytes
    }

    /// The next part of a long response.
    ///
    /// - Throws: ``StatusWord/conditionsNotSatisfied`` if no part remains.
    mutating func nextPart(limit: Int) throws(StatusWord) -> [UInt8] {
        guard !remainder.isEmpty else { throw .conditionsNotSatisfied }
        return firstPart(of: Array(remainder), limit: limit)
    }

    /// Drops the rest of a response: a command other than GET RESPONSE follows.
    mutating func discardResponse() {
        remainder = []
    }
}
