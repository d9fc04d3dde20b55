import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyServices

/// `latchkey doctor`.
struct DoctorCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check whether keys can be created here, and say how to fix problems.",
        discussion:
            "Exits with 0 only if a key can be created now. Changes nothing and does not prompt.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    /// Reports settings that the programs do not accept as a check, like all other problems.
    func run() async throws {
        do {
            _ = try arguments.settings(environment: ProcessInfo.processInfo.environment)
        } catch let error as KeystoreError {
            let report = DoctorReport(checks: Diagnostics.checks(without: error))
            try Console(format: arguments.json ? .json : .text, isQuiet: arguments.quiet)
                .show(report)
            throw ReportedFailure(status: report.status)
        }
        try await runInContext()
    }

    func perform(in context: CommandContext) async throws -> DoctorReport {
        DoctorReport(checks: await Diagnostics(context: context).checks())
    }
}

/// The checks of ‘latchkey doctor’, in order.
struct DoctorReport: Report {
    let checks: [Check]
    /// Whether a key can be created now.
    let ok: Bool

    init(checks: [Check]) {
        self.checks = checks
        ok = !checks.contains { $0.state == .problem }
    }

    var status: ExitStatus { checks.first { $0.state == .problem }?.status ?? .done }

    private enum CodingKeys: String, CodingKey {
        case checks, ok
    }

    var layout: Layout {
        let width = checks.reduce(13) { max($0, $1.name.count + 2) }
        let lines = checks.map { check in
            let state = Layout.Cell(check.state.rawValue, check.state.tone)
            let advice = check.advice.map { "\n→ " + printable($0) } ?? ""
            return Layout.entry(
                [(state, 9), (Layout.Cell(check.name), width)],
                Layout.Cell("\(printable(check.finding))\(advice)"))
        }
        let end =
            ok
            ? Layout.Cell("A key can be created now.", .good)
            : Layout.Cell("No key can be created now.", .bad)
        return .joined(lines + [Layout.entry([], end)])
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

/// One check of ‘latchkey doctor’.
struct Check: Encodable, Sendable {
    enum State: String, Encodable, Sendable {
        case ok
        /// Some commands do not work.
        case warning
        /// No key can be created.
        case problem
    }

    /// A word that scripts can depend on: `settings`, `store`, `tpm`, `tpm-device`, `srk`, `lockout`,
    /// `lockout-password`, `revocation`, `user-pin`, `tokens`, `broker`, `finger`, `attestation`, `policy`, `pin-source`, `ssh-agent`,
    /// `passkeys`, `sign-in`, `server`; with a token `module`, `token`, `token-pin`, `token-key`,
    /// `token-limits`, `readers` instead of the checks of the TPM.
    let name: String
    let state: State
    /// The result, one sentence.
    let finding: String
    /// The next step, one sentence; nil if there is nothing to do.
    let advice: String?
    /// The exit status if this problem makes the command fail.
    private(set) var status = ExitStatus.done

    private enum CodingKeys: String, CodingKey {
        case name, state, finding, advice
    }

    static func ok(_ name: String, _ finding: String) -> Check {
        Check(name: name, state: .ok, finding: finding, advice: nil)
    }

    static func warning(_ name: String, _ finding: String, advice: String) -> Check {
        Check(name: name, state: .warning, finding: finding, advice: advice)
    }

    static func problem(_ name: String, _ error: KeystoreError) -> Check {
        problem(name, "\(error)", advice: error.advice, code: error.code)
    }

    static func problem(
        _ name: String, _ finding: String, advice: String, code: CommonErrorCode
    ) -> Check {
        Check(
            name: name, state: .problem, finding: finding, advice: advice,
            status: ExitStatus(code))
    }
}
