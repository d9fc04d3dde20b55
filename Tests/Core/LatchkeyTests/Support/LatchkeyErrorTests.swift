import Latchkey
import Testing

struct LatchkeyErrorTests {
    private struct Code: LatchkeyErrorCode {
        typealias Details = KeystoreError

        let description = "notPermitted"
        let commonCode = CommonErrorCode.refused
    }

    @Test func `one catch serves the errors of several facades`() {
        let errors: [any Error] = [
            KeystoreError.cancelled("the user declined").during("sign"),
            LatchkeyError(
                operation: "log in", code: Code(), reason: "the server refused",
                recovery: "Log in again."),
        ]
        let texts = errors.map { error in
            do { throw error } catch let error as any ReportableError {
                return "\(error.commonCode): \(error) \(error.recovery)"
            } catch { return "\(error)" }
        }
        #expect(
            texts == [
                "cancelled: Could not sign: the user declined. Start again when you are ready.",
                "refused: Could not log in: the server refused. Log in again.",
            ])
    }

    @Test func `an error that another error caused has the keystore code of its cause`() {
        func error(_ cause: KeystoreError?) -> LatchkeyError<Code> {
            LatchkeyError(
                code: Code(), reason: "the server refused", recovery: "Log in again.",
                details: cause)
        }
        #expect(error(nil).commonCode == .refused)
        #expect(error(.damaged("a row was changed")).commonCode == .damaged)
        #expect(error(nil) == error(.cancelled()))
    }
}
