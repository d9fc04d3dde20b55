import Latchkey
import LatchkeyDesktop
import Testing

/// The lines at the socket of the sign-in.
struct SignInRequestTests {
    private func request(_ line: String) -> (user: UInt32, request: SignInRequest)? {
        SignInRequest.read(SecretBytes(line.utf8))
    }

    @Test func `the requests of the module are read`() throws {
        let auth = try #require(request("auth 1000 70c3a4 gdm-password /dev/tty2"))
        #expect(auth.user == 1000)
        guard case .auth("pä", "gdm-password", "/dev/tty2") = auth.request else {
            Issue.record("\(auth.request)")
            return
        }
        let learned = try #require(request("learned 1000 61 checked 70c3a4"))
        guard case .learned("a", true, let password) = learned.request else {
            Issue.record("\(learned.request)")
            return
        }
        #expect(password == SecretBytes("pä".utf8))
        let refused = try #require(request("learned 1000 61 unchecked 70c3a4"))
        guard case .learned("a", false, password) = refused.request else {
            Issue.record("\(refused.request)")
            return
        }
        let changed = try #require(request("changed 1000 6e 61 62"))
        guard case .changed("n", let old, let new) = changed.request else {
            Issue.record("\(changed.request)")
            return
        }
        #expect((old, new) == (SecretBytes("a".utf8), SecretBytes("b".utf8)))
    }

    @Test func `a secret is sealed under a PIN or for a finger`() throws {
        let finger = try #require(request("enrol 1000 gnome 00 61 finger"))
        guard case .enrol("gnome", _, _, .finger) = finger.request else {
            Issue.record("\(finger.request)")
            return
        }
        let pin = try #require(request("renew 1000 61 123456"))
        guard case .renew(_, .pin) = pin.request else {
            Issue.record("\(pin.request)")
            return
        }
    }

    @Test func `root can remove a record without the password`() throws {
        let removed = try #require(request("remove 1000 7 -"))
        guard case .remove(7, nil) = removed.request else {
            Issue.record("\(removed.request)")
            return
        }
    }

    @Test(arguments: [
        "", " ", "auth", "auth 1000", "auth 1000 61 a", "auth 1000 61 a b c", "auth  1000 61 a b",
        "auth 1000 61 a b ", " auth 1000 61 a b", "auth\t1000 61 a b", "auth 01000 61 a b",
        "auth -1 61 a b", "auth +1 61 a b", "auth 4294967295 61 a b", "auth 4294967296 61 a b",
        "auth 18446744073709551616 61 a b", "AUTH 1000 61 a b", "auth 1000 61 a\u{7f} b",
        "auth 1000 61 ä b", "auth 1000 a b", "auth 1000 ann a b", "auth 1000 c3 a b",
        "auth 1000 - a b", "secret 1000 61 abc", "learned 1000 61", "learned 1000 61 ",
        "learned 1000 61 checked 6", "learned 1000 61 checked 6G", "learned 1000 61 checked 6A",
        "learned 1000 61 yes 61", "changed 1000 61 62",
        "activate 1000 01", "activate 1000 x", "status 1000 x", "allow 1000", "remove 1000 1",
        "enrol 1000 gnome 00 61 12345", "enrol 1000 gnome 00 61 12345678901234567",
        "enrol 1000 gnome 00 61 12a456", "renew 1000 61 fingers", "enrol 1000 gnome 0 61 123456",
        "unknown 1000",
    ])
    func `a line in another form is refused`(_ line: String) {
        #expect(request(line) == nil, "\(line)")
    }

    @Test func `the lengths are limited`() {
        let password = String(repeating: "61", count: 512)
        let name = String(repeating: "61", count: 256)
        #expect(request("learned 1000 \(name) checked \(password)") != nil)
        #expect(request("learned 1000 \(name)61 checked \(password)") == nil)
        #expect(request("learned 1000 \(name) checked \(password)61") == nil)
        #expect(request("changed 4294967294 \(name) \(password) \(password)") != nil)
        #expect(request("auth 1000 61 \(String(repeating: "a", count: 65)) b") == nil)
        #expect(request(String(repeating: "a ", count: 1200)) == nil)
    }

    /// Programs of the user can try PINs, which the TPM counts only until the next right one.
    @Test func `a proof is a PIN of 6 to 16 digits, or a finger`() {
        func proof(_ line: String) -> SignInProof? { SignInProof(SecretBytes(line.utf8)) }
        if case .finger? = proof("finger") {} else { Issue.record("finger") }
        if case .pin? = proof("pin 123456") {} else { Issue.record("6 digits") }
        if case .pin? = proof("pin 1234567890123456") {} else { Issue.record("16 digits") }
        for line in [
            "", "pin", "pin ", "pin 12345", "pin 12345678901234567", "pin 123 456", "pin abcdef",
        ] {
            #expect(proof(line) == nil, "\(line)")
        }
        #expect(proof("finger 1") == nil)
        #expect(proof("pin ٠١٢٣٤٥") == nil)
    }
}
