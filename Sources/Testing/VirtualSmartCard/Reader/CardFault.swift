/// A fault that a test injects. It happens once, in place of the answer to a chosen command.
package struct CardFault: Hashable, Sendable {
    /// What happens.
    package enum Effect: Hashable, Sendable {
        /// The card leaves the reader and does not answer.
        case removal
        /// The card answers with this status word and does not execute the command.
        case status(StatusWord)
    }

    private let effect: Effect
    private let instruction: UInt8?
    private var remaining: Int

    /// - Parameters:
    ///   - number: The number of the command at which the fault happens. The next command has the
    ///     number 1.
    ///   - instruction: Counts only commands with this `INS`; nil for all commands.
    package init(_ effect: Effect, atCommand number: Int = 1, instruction: UInt8? = nil) {
        self.effect = effect
        self.instruction = instruction
        remaining = number
    }

    /// Counts a command, and removes the faults that happen at it.
    ///
    /// - Returns: The effect of the first such fault.
    static func due(at command: [UInt8], in faults: inout [CardFault]) -> Effect? {
        for index in faults.indices
        where faults[index].instruction == nil
            || command.dropFirst().first == faults[index].instruction
        {
            faults[index].remaining -= 1
        }
        defer { faults.removeAll { $0.remaining <= 0 } }
        return faults.first { $0.remaining <= 0 }?.effect
    }
}
