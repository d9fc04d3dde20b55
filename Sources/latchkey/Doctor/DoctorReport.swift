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

    var text: String { text(in: .plain) }

    func text(in style: Style) -> String {
        let lines = checks.map { check in
            let name = check.name.padding(to: 13)
            let advice = check.advice.map { "\n" + "".padding(to: 22) + "→ " + printable($0) } ?? ""
            let state = style(check.state.rawValue.padding(to: 8), check.state.tone)
            return "\(state) \(name)\(printable(check.finding))\(advice)"
        }
        return lines.joined(separator: "\n") + "\n"
            + (ok ? style("A key can be made now.", .good) : style("No key can be made now.", .bad))
    }
}

extension Check.State {
    fileprivate var tone: Style.Tone {
        switch self {
        case .ok: .good
        case .warning: .caution
        case .problem: .bad
        }
    }
}

extension String {
    fileprivate func padding(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
