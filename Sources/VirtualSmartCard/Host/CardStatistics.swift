/// What a card has been through since it was made.
public struct CardStatistics: Hashable, Sendable {
    /// How often it got power or was reset.
    public internal(set) var powerCycles = 0
    /// How many commands it answered.
    public internal(set) var commands = 0
    /// How many of each instruction, under two hexadecimal digits.
    public internal(set) var instructions: [String: Int] = [:]

    mutating func count(_ command: [UInt8]) {
        commands += 1
        guard command.count > 1 else { return }
        let digits = String(command[1], radix: 16)
        instructions[digits.count == 1 ? "0\(digits)" : digits, default: 0] += 1
    }
}
