import Latchkey
import LatchkeyDesktop
import Testing

/// The lines at the socket of the sign-in.
struct SignInRequestTests {
    private func request(_ line: String) -> (user: UInt32, request: SignInRequest)? {
        SignInRequest.read(SecretBytes(line.utf8))
    }

    @Test func `the requests of the module are read`() throws {
        let auth = try #require(request("auth 1000 gdm-password /dev/tty2"))
        #expect(auth.user == 1000)
        guard case .auth("gdm-password", "/dev/tty2") = auth.request else {
            Issue.record("\(auth.request)")
            return
        }
        let learned = try #require(request("learned 1000 70c3a4"))
        guard case .learned(let password) = learned.request else {
            Issue.record("\(learned.request)")
            return
        }
        #expect(password == SecretBytes("pä".utf8))
        let changed = try #require(request("changed 1000 61 62"))
        guard case .changed(let old, let new) = changed.request else {
            Issue.record("\(changed.request)")
            return
        }
        #expect((old, new) == (SecretBytes("a".utf8), SecretBytes("b".utf8)))
    }

    @Test func `root can remove a record without the password`() throws {
        let removed = try #require(request("remove 1000 7 -"))
        guard case .remove(7, nil) = removed.request else {
            Issue.record("\(removed.request)")
            return
        }
    }

    @Test(arguments: [
        "", " ", "auth", "auth 1000", "auth 1000 a", "auth 1000 a b c", "auth  1000 a b",
        "auth 1000 a b ", " auth 1000 a b", "auth\t1000 a b", "auth 01000 a b", "auth -1 a b",
        "auth +1 a b", "auth 4294967295 a b", "auth 4294967296 a b",
        "auth 18446744073709551616 a b", "AUTH 1000 a b", "auth 1000 a\u{7f} b", "auth 1000 ä b",
        "secret 1000 abc", "learned 1000 ", "learned 1000 6", "learned 1000 6G", "learned 1000 6A",
        "activate 1000 01", "activate 1000 x", "status 1000 x", "allow 1000", "remove 1000 1",
        "enrol 1000 gnome 00 61 123", "enrol 1000 gnome 00 61 12345678901234567",
        "enrol 1000 gnome 00 61 12a4", "enrol 1000 gnome 0 61 1234", "unknown 1000",
    ])
    func `a line in another form is refused`(_ line: String) {
        #expect(request(line) == nil, "\(line)")
    }

    @Test func `the lengths are limited`() {
        let password = String(repeating: "61", count: 512)
        #expect(request("learned 1000 \(password)") != nil)
        #expect(request("learned 1000 \(password)61") == nil)
        #expect(request("changed 1000 \(password) \(password)") != nil)
        #expect(request("auth 1000 \(String(repeating: "a", count: 65)) b") == nil)
        #expect(request(String(repeating: "a ", count: 1200)) == nil)
    }

    @Test func `a proof is a PIN of 4 to 16 digits, or a finger`() {
        func proof(_ line: String) -> SignInProof? { SignInProof(SecretBytes(line.utf8)) }
        if case .finger? = proof("finger") {} else { Issue.record("finger") }
        if case .pin? = proof("pin 1234") {} else { Issue.record("4 digits") }
        if case .pin? = proof("pin 1234567890123456") {} else { Issue.record("16 digits") }
        for line in [
            "", "pin", "pin ", "pin 123", "pin 12345678901234567", "pin 12 34", "pin abcd",
        ] {
            #expect(proof(line) == nil, "\(line)")
        }
        #expect(proof("finger 1") == nil)
        #expect(proof("pin ٠١٢٣") == nil)
    }
}
