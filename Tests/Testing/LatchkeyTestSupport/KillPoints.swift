internal import Foundation
internal import LatchkeySimulators
internal import Testing

/// Kills a program at every point of a change of stored data.
///
/// The first run counts the effects of the change. Each further run kills the program before
/// another effect. After each run, the caller checks that the change is complete or not done, and
/// that nothing else is lost.
package enum KillPoints {
    /// One run of a change.
    package struct Run: Sendable, CustomStringConvertible {
        let name: String
        /// The effect before which the program was killed, or nil if it completed.
        package let killedBefore: Int?
        /// The effects of the run.
        package let effects: KillSwitch.Effects

        package var description: String {
            "\(name), \(killedBefore.map { "killed before effect \($0)" } ?? "completed"), after \(effects)"
        }
    }

    /// Kills a change at its points.
    ///
    /// - Parameters:
    ///   - kind: The change.
    ///   - prepare: Creates the initial state. A program that it starts with these environment
    ///     variables is not killed before `change`.
    ///   - change: Runs the program with the same variables; returns whether it completed.
    ///   - check: Checks the state after the run.
    package static func test<State>(
        _ kind: StateChange, prepare: ([String: String]) async throws -> State,
        change: (State, [String: String]) async throws -> Bool,
        check: (State, Run) async throws -> Void
    ) async throws {
        let (name, share) = (kind.rawValue, kind.share)
        let killSwitch = try KillSwitch()
        func run(before effect: Int?) async throws -> Run {
            try killSwitch.arm(before: nil)
            let state = try await prepare(killSwitch.environment)
            try killSwitch.arm(before: effect)
            let isOver = try await change(state, killSwitch.environment)
            let result = Run(
                name: name, killedBefore: isOver ? nil : effect, effects: try killSwitch.effects)
            try #require(isOver || effect != nil, "\(result)")
            // With other timing of its threads, a run may have fewer effects than the first run.
            if isOver, let effect {
                #expect(result.effects.total < effect, "\(result) was not killed")
            }
            try await check(state, result)
            return result
        }
        let whole = try await run(before: nil).effects
        #expect(whole.total >= share, "\(name) has \(whole.total) points")
        let count = Repetitions.count(whole.total, sample: min(share, whole.total))
        var killed = 0
        for index in 0..<count
        where try await run(before: 1 + index * whole.total / count).killedBefore != nil {
            killed += 1
        }
        // Some runs may have fewer effects than the first run.
        #expect(killed + max(2, count / 5) >= count, "\(name) was killed only \(killed) times")
        print(
            "Kill points: \(name): killed at \(killed) of \(whole.total)",
            "(files \(whole.files), TPM and bus \(whole.local), network \(whole.network))")
    }
}

/// Kills a program (SIGKILL) before its n-th external effect, and counts the effects.
///
/// It preloads `Tests/C/KillSwitch` into any program that links the C library dynamically. It does
/// not affect the program's child processes.
package final class KillSwitch: Sendable {
    /// The numbers of a program's effects.
    package struct Effects: Sendable, Hashable {
        /// Changes and synchronizations of files and directories.
        package let files: Int
        /// Messages to local sockets: a software TPM or a bus.
        package let local: Int
        /// Messages to the network.
        package let network: Int

        /// The sum.
        package var total: Int { files + local + network }
    }

    private let directory: TemporaryDirectory
    private var path: String { directory.path(of: "switch") }
    private let library: String

    /// Creates a switch. ``environment`` loads it into a program.
    package init() throws {
        directory = try TemporaryDirectory()
        library = try BuiltProduct.library("KillSwitch")
        try Self.counters(lethal: nil).write(to: URL(filePath: path))
    }

    /// The environment variables for the program.
    package var environment: [String: String] { ["LD_PRELOAD": library, "KILL_SWITCH": path] }

    /// Restarts the count, also in a running program.
    ///
    /// - Parameter effect: The effect before which to kill the program, counted from 1, or nil.
    package func arm(before effect: Int?) throws {
        // In place: a program may have it mapped.
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.write(contentsOf: Self.counters(lethal: effect))
        try file.close()
    }

    /// `struct kill_switch` of `Tests/C/KillSwitch`.
    private static func counters(lethal: Int?) -> Data {
        var bytes = Data(count: 5 * MemoryLayout<UInt64>.size)
        withUnsafeBytes(of: UInt64(lethal ?? 0)) { bytes.replaceSubrange(0..<$0.count, with: $0) }
        return bytes
    }

    /// The effects since the start of the count.
    package var effects: Effects {
        get throws {
            let bytes = try Data(contentsOf: URL(filePath: path))
            let numbers = bytes.withUnsafeBytes {
                Array($0.bindMemory(to: UInt64.self)).map(Int.init)
            }
            try #require(numbers.count == 5)
            return Effects(files: numbers[2], local: numbers[3], network: numbers[4])
        }
    }
}

/// The changes of stored data that ``KillPoints`` tests, with the number of points in a sample of
/// each. The samples have at least ``minimum`` points in total.
package enum StateChange: String, Sendable, CaseIterable {
    /// The minimum number of points of a run with samples.
    package static let minimum = 500

    /// `latchkey key create` on a token in files.
    case keyOnToken = "key create, on a token"
    /// `latchkey vault store`.
    case vaultStore = "vault store"
    /// `latchkey vault store --biometrics`.
    case vaultStoreGated = "vault store --biometrics"
    /// `latchkey vault update`.
    case vaultUpdate = "vault update"
    /// `latchkey vault update`, gated.
    case vaultUpdateGated = "vault update, gated"
    /// `latchkey vault upgrade`.
    case vaultUpgrade = "vault upgrade"
    /// `latchkey vault downgrade`.
    case vaultDowngrade = "vault downgrade"
    /// `latchkey vault reset`.
    case vaultReset = "vault reset"
    /// `latchkey pin change`.
    case pinChange = "pin change"
    /// `latchkey enable`.
    case enable
    /// `latchkey authenticate`.
    case authenticate
    /// `latchkey disable`.
    case disable
    /// `latchkey logout --keep-biometric`.
    case logout = "logout --keep-biometric"
    /// `latchkey credential add`.
    case credentialAdd = "credential add"
    /// `latchkey credential add --policy pin`.
    case credentialAddGated = "credential add --policy pin"
    /// `latchkey credential refresh`.
    case credentialRefresh = "credential refresh"
    /// `latchkey credential revoke`.
    case credentialRevoke = "credential revoke"
    /// `latchkey credential remove`.
    case credentialRemove = "credential remove"
    /// `latchkey locker start`, first.
    case lockerEnrolment = "locker start, first"
    /// `latchkey locker start --level easy`.
    case lockerStart = "locker start --level easy"
    /// `latchkey locker easy-access enable`.
    case easyAccessEnable = "locker easy-access enable"
    /// `latchkey locker easy-access change`.
    case easyAccessChange = "locker easy-access change"
    /// `latchkey locker easy-access disable`.
    case easyAccessDisable = "locker easy-access disable"
    /// `latchkey locker end --mode destroy`.
    case lockerDestroy = "locker end --mode destroy"
    /// The first start of `latchkey-presenced`.
    case brokerStart = "latchkey-presenced's first start"
    /// The creation of a user's PIN counter.
    case brokerPIN = "room for a user's PIN"
    /// The reset of a PIN's counter.
    case brokerPINReset = "a PIN's count begun anew"
    /// The first enrolment of a user's fingers.
    case brokerEnrolment = "a user's first fingers"
    /// A change of a user's fingers.
    case brokerEnrolmentChange = "a user's other fingers"

    /// The number of points in a sample. The change has at least this number of points.
    package var share: Int {
        switch self {
        case .pinChange, .enable, .authenticate: 40
        case .keyOnToken: 30
        case .disable, .brokerStart: 30
        case .credentialRefresh, .lockerEnrolment: 25
        case .vaultUpgrade, .vaultDowngrade, .brokerPIN, .brokerEnrolment: 20
        case .lockerStart, .easyAccessEnable, .easyAccessChange, .easyAccessDisable, .lockerDestroy:
            15
        default: 12
        }
    }
}
