import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import Testing

@testable import LatchkeyDesktop

@Suite struct SignInRecordTests {
    private static let password = SecretBytes("password".utf8)

    /// A record with both copies, as `enrol` makes it.
    private static func record(user: UInt32 = 1000) throws -> SignInRecord {
        var record = SignInRecord(user: user, name: "ann", kind: .gnome)
        record.add(
            try PasswordWrap(
                quick: .random(count: 32), password: password, binding: record.nextBinding))
        record.seal([1, 2, 3], with: 0)
        return record
    }

    private static func store(_ directory: TemporaryDirectory) -> SignInRecordStore {
        SignInRecordStore(directory: directory.path)
    }

    @Test func `a record comes back as it was written, with the next generation`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        #expect(try store.read(user: 1000) == nil)
        var record = try store.write(Self.record())
        #expect(record.generation == 1)
        #expect(try store.read(user: 1000) == record)
        #expect(try record.open(password: Self.password)?.index == 0)
        record.state = .active
        record = try store.write(record)
        #expect(record.generation == 2)
        // The copy is bound to the generation with which it was made.
        #expect(try store.read(user: 1000)?.open(password: Self.password) != nil)
        try store.remove(user: 1000, generation: 2)
        #expect(try store.read(user: 1000) == nil)
    }

    @Test func `a new copy keeps the one before until a sign-in proves it`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        var record = try store.write(Self.record())
        let secret = try #require(try record.open(password: Self.password)).secret
        let new = SecretBytes("new password".utf8)
        record.add(try PasswordWrap(quick: secret, password: new, binding: record.nextBinding))
        record = try store.write(record)
        #expect(try record.open(password: new)?.index == 0)
        #expect(try record.open(password: Self.password)?.index == 1)
        // The copy between them, which no sign-in has proven, is replaced.
        record.add(
            try PasswordWrap(
                quick: secret, password: SecretBytes("other".utf8), binding: record.nextBinding))
        record = try store.write(record)
        record.add(try PasswordWrap(quick: secret, password: new, binding: record.nextBinding))
        record = try store.write(record)
        #expect(try record.open(password: SecretBytes("other".utf8)) == nil)
        #expect(try record.open(password: Self.password)?.index == 1)
        record.markStale()
        record.keepOnly(0)
        record = try store.write(record)
        #expect(record.wraps.count == 1)
        #expect(record.wraps[0].isStale == false)
        #expect(try record.open(password: new)?.secret == secret)
        #expect(try record.open(password: Self.password) == nil)
    }

    /// The other password's program may have chosen the proof of the seal.
    @Test func `the sealed secret goes with the copy whose password was given with its proof`()
        throws
    {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        var record = try store.write(Self.record())
        let secret = try #require(try record.open(password: Self.password)).secret
        record.add(
            try PasswordWrap(
                quick: secret, password: SecretBytes("other".utf8), binding: record.nextBinding))
        #expect(record.wraps.map(\.isOfSeal) == [false, true])
        record.seal([4], with: 0)
        #expect(record.wraps.map(\.isOfSeal) == [true, false])
        record = try store.write(record)
        #expect(try store.read(user: 1000) == record)
        var other = record
        other.keepOnly(0)
        #expect(other.sealed == [4] && other.provableSeal == [4])
        other.endSignIn()
        #expect(other.sealed == [4] && other.provableSeal == nil)
        record.keepOnly(1)
        #expect(record.sealed == nil && record.wraps.map(\.isOfSeal) == [false])
    }

    @Test func `a writer with an old record changes nothing`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        let first = try store.write(Self.record())
        let second = try store.write(first)
        for old in [first, try Self.record()] {
            #expect(throws: CommonError.of(.conflict)) { try store.write(old) }
        }
        #expect(throws: CommonError.of(.conflict)) {
            try store.remove(user: 1000, generation: first.generation)
        }
        #expect(try store.read(user: 1000) == second)
    }

    @Test func `only a file that is no record is removed without its generation`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        #expect(throws: CommonError.of(.conflict)) { try store.removeDamaged(user: 1000) }
        let record = try store.write(Self.record())
        #expect(throws: CommonError.of(.conflict)) { try store.removeDamaged(user: 1000) }
        #expect(try store.read(user: 1000) == record)
        #expect(truncate("\(directory.path)/1000", 20) == 0)
        #expect(throws: CommonError.of(.damaged)) {
            try store.remove(user: 1000, generation: record.generation)
        }
        try store.removeDamaged(user: 1000)
        #expect(try store.read(user: 1000) == nil)
    }

    @Test func `a record without a copy never replaces the last one`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        var sealed = SignInRecord(user: 1000, name: "ann", kind: .gnome)
        sealed.sealed = [1]
        var record = try store.write(sealed)
        record.sealed = nil
        #expect(throws: CommonError.of(.wrongState)) { try store.write(record) }
        #expect(try store.read(user: 1000)?.sealed == [1])
    }

    @Test func `the rest of an interrupted write is no record`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        let record = try store.write(Self.record())
        try Data("{".utf8).write(to: directory.url.appending(path: "1000.new"))
        #expect(try store.read(user: 1000) == record)
        #expect(try store.write(record).generation == 2)
    }

    @Test func `a disk that is full keeps the old record`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        let record = try store.write(Self.record())
        // Creating the temporary file fails: its name is a directory with a file.
        let obstacle = directory.path(of: "1000.new")
        try FileManager.default.createDirectory(
            atPath: "\(obstacle)/x", withIntermediateDirectories: true)
        #expect(throws: CommonError.of(.unavailable)) { try store.write(record) }
        #expect(try store.read(user: 1000) == record)
    }

    @Test func `files and directories that other users can access are refused`() throws {
        let directory = try TemporaryDirectory()
        let store = Self.store(directory)
        _ = try store.write(Self.record())
        let file = directory.path(of: "1000")
        func expectRefusal(_ comment: Comment) {
            #expect(throws: CommonError.of(.unavailable), comment) { try store.read(user: 1000) }
        }
        chmod(file, 0o644)
        expectRefusal("a file that others can read")
        chmod(file, 0o600)
        link(file, directory.path(of: "second"))
        expectRefusal("a second name")
        unlink(directory.path(of: "second"))
        rename(file, directory.path(of: "real"))
        symlink(directory.path(of: "real"), file)
        expectRefusal("a symbolic link")
        unlink(file)
        rename(directory.path(of: "real"), file)
        chmod(directory.path, 0o755)
        expectRefusal("a directory that others can read")
        chmod(directory.path, 0o700)
        #expect(try store.read(user: 1000) != nil)
    }

    @Test func `a record of one kind does not open as one of another`() throws {
        let good = String(decoding: try Self.record().next().encoded(), as: UTF8.self)
        let other = good.replacing(#""kind":"gnome""#, with: #""kind":"none""#)
        let record = try SignInRecord(decoding: Data(other.utf8), user: 1000)
        #expect(record.kind == .withoutKeyring && record.sealedForKeyring == nil)
        #expect(try record.open(password: Self.password) == nil)
    }

    @Test func `hostile bytes are damaged, not a record`() throws {
        let record = try Self.record()
        let good = String(decoding: try record.next().encoded(), as: UTF8.self)
        #expect(try SignInRecord(decoding: Data(good.utf8), user: 1000) == record.next())
        let newer = good.replacing(#""version":1"#, with: #""version":2"#)
        try #require(newer != good)
        #expect(throws: CommonError.of(.unsupported)) {
            try SignInRecord(decoding: Data(newer.utf8), user: 1000)
        }
        let changes: [(String, String)] = [
            (#""user":1000"#, #""user":0"#),
            (#""user":1000"#, #""user":4294967296"#), (#""kind":"gnome""#, #""kind":"other""#),
            (#""kind":"gnome""#, #""kind":"kwallet""#), (#""state":"pending""#, #""state":"x""#),
            (#""name":"ann""#, #""name":"""#),
            (#""name":"ann""#, #""name":""# + String(repeating: "a", count: 257) + #"""#),
            (#""generation":1"#, #""generation":0"#), (#""generation":1"#, #""generation":-1"#),
            (#""sealed":"AQID""#, #""sealed":"""#),
            (
                #""sealed":"AQID""#,
                #""sealed":""# + String(repeating: "AAAA", count: 2000) + #"""#
            ),
            (#""logRounds":4"#, #""logRounds":17"#), (#""logRounds":4"#, #""logRounds":0"#),
            (#""salt":""#, #""salt":"AAAA"#), (#""box":""#, #""box":"AAAA"#),
            ("{", "["), ("}", ""),
        ]
        for (old, new) in changes {
            let text = good.replacing(old, with: new)
            try #require(text != good, "\(old)")
            #expect(throws: CommonError.of(.damaged), "\(old) → \(new.prefix(40))") {
                try SignInRecord(decoding: Data(text.utf8), user: 1000)
            }
        }
        #expect(throws: CommonError.of(.damaged)) {
            try SignInRecord(decoding: Data(good.utf8), user: 1001)
        }
        for length in 0..<good.utf8.count where length % 7 == 0 {
            #expect(throws: CommonError.of(.damaged)) {
                try SignInRecord(decoding: Data(good.utf8.prefix(length)), user: 1000)
            }
        }
    }
}
