import FoundationEssentials
import LatchkeyRelyingParty
import Logging
import Synchronization

/// The operator's trust anchors. Their directories are read again after a change.
final class AnchorFiles: Sendable {
    struct Anchors: Sendable {
        let tpm: AttestationAnchors.Group
        let piv: AttestationAnchors.Group
        let simulated: AttestationAnchors.Group
    }

    /// The path, size and time of the last change of each file.
    private typealias Fingerprint = [String]

    private struct State {
        var anchors: Anchors
        var fingerprint: Fingerprint
        var checkedAt: Date
    }

    /// The minimum number of seconds between two checks for changes.
    static let interval: TimeInterval = 10

    private let configuration: AttestationConfiguration
    private let clock: WallClock
    private let state: Mutex<State>

    /// - Throws: ``ConfigurationError`` if a directory or file cannot be read.
    init(_ configuration: AttestationConfiguration, clock: WallClock) throws {
        self.configuration = configuration
        self.clock = clock
        let fingerprint = Self.fingerprint(of: configuration)
        state = Mutex(
            State(anchors: try Self.read(configuration), fingerprint: fingerprint, checkedAt: clock.now))
    }

    /// The anchors. If changed files cannot be read, the earlier anchors stay in use, and the error is logged once for each change.
    func current(_ logger: Logger) -> Anchors {
        let now = clock.now
        return state.withLock { state in
            guard abs(now.timeIntervalSince(state.checkedAt)) >= Self.interval else { return state.anchors }
            state.checkedAt = now
            let fingerprint = Self.fingerprint(of: configuration)
            guard fingerprint != state.fingerprint else { return state.anchors }
            state.fingerprint = fingerprint
            do {
                state.anchors = try Self.read(configuration)
                logger.notice("trust anchors read again")
            } catch {
                logger.error("Could not read the changed trust anchors: \(error) The earlier ones stay in use.")
            }
            return state.anchors
        }
    }

    private static func read(_ configuration: AttestationConfiguration) throws -> Anchors {
        Anchors(
            tpm: try read(configuration.tpmAnchors, "tpm_anchors"),
            piv: try read(configuration.pivAnchors, "piv_anchors"),
            simulated: try read(configuration.simulatedAnchors, "simulated_anchors"))
    }

    private static func read(_ directories: [String], _ member: String) throws -> AttestationAnchors.Group {
        do {
            return try AttestationAnchors.Group(directories.map { try AttestationAnchors.Group(directory: $0) })
        } catch let error as AttestationAnchorError {
            throw ConfigurationError(
                "attestation.\(member): \(error.path): \(error.reason)", "Correct or remove the file or directory.")
        }
    }

    private static func fingerprint(of configuration: AttestationConfiguration) -> Fingerprint {
        let directories = configuration.tpmAnchors + configuration.pivAnchors + configuration.simulatedAnchors
        return directories.flatMap { directory in
            ((try? FileManager.default.subpathsOfDirectory(atPath: directory)) ?? []).sorted().map { file in
                let path = directory + "/" + file
                let attributes = try? FileManager.default.attributesOfItem(atPath: path)
                let size = attributes?[.size] as? UInt64
                let time = (attributes?[.modificationDate] as? Date)?.timeIntervalSince1970
                return "\(path) \(size ?? 0) \(time ?? 0)"
            }
        }
    }
}
