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
        /// The error of the first directory without roots; nil if each has roots.
        fileprivate let withoutRoots: ConfigurationError?
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

    /// - Throws: ``ConfigurationError`` if a directory or file cannot be read, or a directory
    ///   contains no root.
    init(_ configuration: AttestationConfiguration, clock: WallClock) throws {
        self.configuration = configuration
        self.clock = clock
        let fingerprint = Self.fingerprint(of: configuration)
        let anchors = try Self.read(configuration)
        if let error = anchors.withoutRoots { throw error }
        state = Mutex(State(anchors: anchors, fingerprint: fingerprint, checkedAt: clock.now))
    }

    /// The anchors. If changed files cannot be read, the earlier anchors stay in use, and the error
    /// is logged once for each change. Removed roots are no longer trusted, also the last one of a
    /// directory.
    func current(_ logger: Logger) -> Anchors {
        let now = clock.now
        return state.withLock { state in
            guard abs(now.timeIntervalSince(state.checkedAt)) >= Self.interval else {
                return state.anchors
            }
            state.checkedAt = now
            let fingerprint = Self.fingerprint(of: configuration)
            guard fingerprint != state.fingerprint else { return state.anchors }
            state.fingerprint = fingerprint
            do {
                state.anchors = try Self.read(configuration)
                logger.notice("trust anchors read again")
                if let error = state.anchors.withoutRoots {
                    logger.error("Trust anchors are missing: \(error)")
                }
            } catch {
                logger.error(
                    "Could not read the changed trust anchors: \(error) The earlier ones stay in use."
                )
            }
            return state.anchors
        }
    }

    private static func read(_ configuration: AttestationConfiguration) throws -> Anchors {
        var withoutRoots: ConfigurationError?
        func group(_ directories: [String], _ member: String) throws -> AttestationAnchors.Group {
            var groups: [AttestationAnchors.Group] = []
            for directory in directories {
                let group = try read(directory, member)
                if !group.hasRoots, withoutRoots == nil {
                    withoutRoots = ConfigurationError(
                        "attestation.\(member): no roots in \(directory)/roots",
                        "Copy the manufacturer's root certificates into it.")
                }
                groups.append(group)
            }
            return AttestationAnchors.Group(groups)
        }
        let tpm = try group(configuration.tpmAnchors, "tpm_anchors")
        let piv = try group(configuration.pivAnchors, "piv_anchors")
        let simulated = try group(configuration.simulatedAnchors, "simulated_anchors")
        return Anchors(tpm: tpm, piv: piv, simulated: simulated, withoutRoots: withoutRoots)
    }

    private static func read(_ directory: String, _ member: String) throws
        -> AttestationAnchors.Group
    {
        do throws(AttestationAnchorError) {
            return try AttestationAnchors.Group(directory: directory)
        } catch {
            throw ConfigurationError(
                "attestation.\(member): \(error.path): \(error.reason)",
                "Correct or remove the file or directory.")
        }
    }

    private static func fingerprint(of configuration: AttestationConfiguration) -> Fingerprint {
        let directories =
            configuration.tpmAnchors + configuration.pivAnchors + configuration.simulatedAnchors
        return directories.flatMap { directory in
            ((try? FileManager.default.subpathsOfDirectory(atPath: directory)) ?? []).sorted().map {
                file in
                let path = directory + "/" + file
                let attributes = try? FileManager.default.attributesOfItem(atPath: path)
                let size = attributes?[.size] as? UInt64
                let time = (attributes?[.modificationDate] as? Date)?.timeIntervalSince1970
                return "\(path) \(size ?? 0) \(time ?? 0)"
            }
        }
    }
}
