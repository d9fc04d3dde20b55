internal import Foundation
internal import LatchkeySimulators
internal import Testing

/// Kills a program (SIGKILL) before the n-th thing that it does to the world, and counts those things.
///
/// The program is any that links the C library dynamically: `Tests/KillSwitch` is loaded into it. What it starts itself
/// is neither counted nor killed.
package final class KillSwitch: Sendable {
    /// How many effects a program had on its surroundings.
    package struct Effects: Sendable, Hashable {
        /// Changes of files and directories, synchronisations included.
        package let files: Int
        /// What went through local sockets, so to a software TPM or a bus.
        package let local: Int
        /// What went to the network.
        package let network: Int

        /// All of them.
        package var total: Int { files + local + network }
    }

    private let directory: TemporaryDirectory
    private var path: String { directory.path(of: "switch") }
    private let library: String

    /// Loads nothing yet: ``environment`` does that in a program.
    package init() throws {
        directory = try TemporaryDirectory()
        library = try BuiltProduct.path(of: "libKillSwitch.so")
        try Self.counters(lethal: nil).write(to: URL(filePath: path))
    }

    /// What the program's environment must have.
    package var environment: [String: String] { ["LD_PRELOAD": library, "KILL_SWITCH": path] }

    /// Begins the count anew, also that of a program that runs.
    ///
    /// - Parameter effect: Before which effect the program is killed, counted from 1; nil for never.
    package func arm(before effect: Int?) throws {
        // In place: a program may have it mapped.
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.write(contentsOf: Self.counters(lethal: effect))
        try file.close()
    }

    /// `struct kill_switch` of `Tests/KillSwitch`.
    private static func counters(lethal: Int?) -> Data {
        var bytes = Data(count: 5 * MemoryLayout<UInt64>.size)
        withUnsafeBytes(of: UInt64(lethal ?? 0)) { bytes.replaceSubrange(0..<$0.count, with: $0) }
        return bytes
    }

    /// The effects since the count began, up to the program's end.
    package var effects: Effects {
        get throws {
            let bytes = try Data(contentsOf: URL(filePath: path))
            let numbers = bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt64.self)).map(Int.init) }
            try #require(numbers.count == 5)
            return Effects(files: numbers[2], local: numbers[3], network: numbers[4])
        }
    }
}
