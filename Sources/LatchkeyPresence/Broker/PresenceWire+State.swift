internal import FoundationEssentials
package import Latchkey

extension PresenceWire {
    /// `state, detail, until`: `ready`, `not-available`, `not-enrolled` or `locked-out`; why; a POSIX time or 0.
    package static func arguments(_ state: FingerState) -> [BusValue] {
        switch state {
        case .ready: [.string("ready"), .string(""), .uint64(0)]
        case .notAvailable(let why): [.string("not-available"), .string(why), .uint64(0)]
        case .notEnrolled: [.string("not-enrolled"), .string(""), .uint64(0)]
        case .lockedOut(let until):
            [.string("locked-out"), .string(""), .uint64(UInt64(max(0, until?.timeIntervalSince1970 ?? 0)))]
        }
    }

    static func state(_ arguments: [BusValue]) -> FingerState? {
        guard arguments.count == 3, let word = arguments[0].string, let detail = arguments[1].string,
            let until = arguments[2].uint64
        else { return nil }
        return switch word {
        case "ready": .ready
        case "not-available": .notAvailable(detail)
        case "not-enrolled": .notEnrolled
        case "locked-out": .lockedOut(until: until == 0 ? nil : Date(timeIntervalSince1970: Double(until)))
        default: nil
        }
    }
}
