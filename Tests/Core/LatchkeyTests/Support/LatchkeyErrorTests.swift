import Latchkey
import Testing

struct LatchkeyErrorTests {
    private struct Code: LatchkeyErrorCode {
        typealias Details = KeystoreError

        let description = "notPermitted"
        let commonCode = CommonErrorCode.refused
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
