import LatchkeyPresence
import Testing

@testable import latchkey_presenced

/// The conversation with fprintd, and the accepted answers.
struct VerificationDialogueTests {
    private static let fprintd = ":1.7"

    /// A dialogue whose verification fprintd has confirmed.
    private func verifying() -> VerificationDialogue {
        var dialogue = VerificationDialogue(fprintd: Self.fprintd)
        #expect(dialogue.begin() == [.claim])
        #expect(dialogue.receive(.claimed(.done)) == [.startVerification])
        #expect(dialogue.receive(.started(.done)) == [.report(.waiting)])
        return dialogue
    }

    private func status(
        _ word: String, isDone: Bool = true, from sender: String = fprintd
    ) -> VerificationDialogue.Input {
        .status(word, isDone: isDone, sender: sender)
    }

    @Test func `a match is accepted, and the reader is released first`() {
        var dialogue = verifying()
        #expect(dialogue.receive(status("verify-match")) == [.report(.matched), .stopVerification])
        #expect(dialogue.receive(.stopped) == [.release])
        #expect(dialogue.receive(.released) == [.finish(.matched)])
        #expect(dialogue.receive(status("verify-match")) == [])
    }

    @Test func `a match of another sender, an incomplete one and an early one are ignored`() {
        var dialogue = VerificationDialogue(fprintd: Self.fprintd)
        _ = dialogue.begin()
        #expect(dialogue.receive(status("verify-match")) == [], "before the claim")
        _ = dialogue.receive(.claimed(.done))
        #expect(
            dialogue.receive(status("verify-match")) == [],
            "before fprintd has confirmed the verification")
        _ = dialogue.receive(.started(.done))
        #expect(
            dialogue.receive(status("verify-match", from: ":1.99")) == [], "from another program")
        #expect(dialogue.receive(status("verify-match", isDone: false)) == [], "not complete")
        #expect(dialogue.receive(status("verify-no-match")).contains(.stopVerification))
    }

    @Test(arguments: [
        ("verify-retry-scan", FingerProgress.retry), ("verify-swipe-too-short", .swipeTooShort),
        ("verify-finger-not-centered", .centreFinger), ("verify-remove-and-retry", .removeFinger),
    ])
    func `a finger that was not read can be placed again`(
        _ word: String, _ progress: FingerProgress
    ) {
        var dialogue = verifying()
        #expect(dialogue.receive(status(word, isDone: false)) == [.report(progress)])
        #expect(dialogue.receive(status("verify-match")).contains(.stopVerification))
    }

    @Test func `a failure ends the verification and releases the reader`() {
        for word in ["verify-unknown-error", "verify-disconnected", "a word of the future"] {
            var dialogue = verifying()
            #expect(dialogue.receive(status(word)) == [.stopVerification])
            #expect(dialogue.receive(.stopped) == [.release])
            guard case .finish(.failed) = dialogue.receive(.released).first else {
                Issue.record("\(word) is no failure")
                return
            }
        }
    }

    /// fprintd may be running and have lost only its name, so the reader is always released.
    @Test func `the end of fprintd ends each step, and its results are discarded`() {
        let gone = VerificationOutcome.failed("fprintd ended")
        var claiming = VerificationDialogue(fprintd: Self.fprintd)
        _ = claiming.begin()
        #expect(claiming.receive(.vanished) == [])
        #expect(claiming.receive(.claimed(.done)) == [.release])
        #expect(claiming.receive(.released) == [.finish(gone)])
        var starting = VerificationDialogue(fprintd: Self.fprintd)
        _ = starting.begin()
        _ = starting.receive(.claimed(.done))
        #expect(starting.receive(.vanished) == [])
        #expect(starting.receive(.started(.done)) == [.stopVerification])
        #expect(starting.receive(.stopped) == [.release])
        #expect(starting.receive(.released) == [.finish(gone)])
        var watching = verifying()
        #expect(watching.receive(.vanished) == [.stopVerification])
        #expect(watching.receive(status("verify-match")) == [], "a match that comes after it")
        #expect(watching.receive(.stopped) == [.release])
        #expect(watching.receive(.released) == [.finish(gone)])
        var matched = verifying()
        _ = matched.receive(status("verify-match"))
        #expect(matched.receive(.vanished) == [])
        #expect(matched.receive(.stopped) == [.release])
        #expect(matched.receive(.vanished) == [])
        #expect(matched.receive(.released) == [.finish(gone)])
    }

    @Test func `a finger that did not match counts if fprintd then ends`() {
        var dialogue = verifying()
        _ = dialogue.receive(status("verify-no-match"))
        #expect(dialogue.receive(.vanished) == [])
        #expect(dialogue.receive(.stopped) == [.release])
        #expect(dialogue.receive(.vanished) == [])
        #expect(dialogue.receive(.released) == [.finish(.notMatched)])
    }

    @Test func `a claim that fprintd itself did not refuse is released`() {
        var lost = VerificationDialogue(fprintd: Self.fprintd)
        _ = lost.begin()
        #expect(
            lost.receive(.claimed(.refused("org.freedesktop.DBus.Error.NoReply", ""))) == [.release]
        )
        guard case .finish(.failed) = lost.receive(.released).first else {
            Issue.record("it is no failure")
            return
        }
    }

    @Test func `cancellation and timeout wait for a running call`() {
        for (input, outcome) in [
            (VerificationDialogue.Input.cancelled, VerificationOutcome.cancelled), (.late, .late),
        ] {
            var early = VerificationDialogue(fprintd: Self.fprintd)
            _ = early.begin()
            #expect(early.receive(input) == [])
            #expect(early.receive(.claimed(.done)) == [.release])
            #expect(early.receive(.released) == [.finish(outcome)])
            var late = verifying()
            #expect(late.receive(input) == [.report(.withdrawn), .stopVerification])
            #expect(late.receive(status("verify-match")) == [], "a match that comes after it")
            // fprintd reports this for a verification that was stopped.
            #expect(late.receive(status("verify-no-match")) == [])
            #expect(late.receive(.stopped) == [.release])
            #expect(late.receive(.released) == [.finish(outcome)])
        }
    }

    @Test func `refusals are mapped to outcomes`() {
        var busy = VerificationDialogue(fprintd: Self.fprintd)
        _ = busy.begin()
        #expect(
            busy.receive(.claimed(.refused("net.reactivated.Fprint.Error.AlreadyInUse", ""))) == [
                .finish(.busy)
            ])
        var empty = VerificationDialogue(fprintd: Self.fprintd)
        _ = empty.begin()
        _ = empty.receive(.claimed(.done))
        #expect(
            empty.receive(.started(.refused("net.reactivated.Fprint.Error.NoEnrolledPrints", "")))
                == [.release])
        #expect(empty.receive(.released) == [.finish(.notEnrolled)])
    }
}
