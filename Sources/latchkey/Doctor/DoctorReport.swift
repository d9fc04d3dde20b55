/// What the doctor found, in the order in which it looked.
struct DoctorReport: Report {
    let checks: [Check]
    /// Whether a key can be made now.
    let ok: Bool

    init(checks: [Check]) {
        self.checks = checks
        ok = !checks.contains { $0.state == .problem }
    }

    /// What the process ends with, where that is not 0.
    var failure: ExitStatus? {
        checks.first { $0.state == .problem }?.status
    }

    private enum CodingKeys: String, CodingKey {
        case checks, ok
    }

    var text: String {
        let lines = checks.map { check in
            let name = check.name.padding(to: 13)
            let advice = check.advice.map { "\n" + "".padding(to: 22) + "→ " + printable($0) } ?? ""
            return "\(check.state.rawValue.padding(to: 8)) \(name)\(printable(check.finding))\(advice)"
        }
        return lines.joined(separator: "\n") + (ok ? "\nA key can be made now." : "\nNo key can be made now.")
    }
}

extension String {
    fileprivate func padding(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
