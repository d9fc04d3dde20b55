import Glibc
import LatchkeyPlatform
import Testing

struct SystemTests {
    @Test func `an error of the system has the system's text`() {
        #expect("\(SystemError(EACCES))" == "Permission denied")
        _ = close(-1)
        #expect(SystemError.last == SystemError(EBADF))
    }

    @Test func `a variable hides an earlier one until it is unset`() throws {
        let name = "LATCHKEY_PLATFORM_TEST"
        func value() -> String? { getenv(name).map { String(cString: $0) } }
        let first = try #require(EnvironmentVariable(setting: "\(name)=1"))
        let second = try #require(EnvironmentVariable(setting: "\(name)=2"))
        #expect(value() == "2")
        second.unset()
        #expect(value() == "1")
        first.unset()
        #expect(value() == nil)
    }

    @Test func `functions of an optional library are found by name`() throws {
        let library = try OptionalLibrary("libc.so.6")
        let function: @convention(c) () -> Int32 = try library.function("getpid")
        #expect(function() == getpid())
        let missing = #expect(throws: OptionalLibrary.Missing.self) {
            let _: @convention(c) () -> Int32 = try library.function("latchkey_missing")
        }
        #expect(missing?.description.contains("latchkey_missing") == true)
        let absent = #expect(throws: OptionalLibrary.Missing.self) {
            try OptionalLibrary("liblatchkey-missing.so.1")
        }
        #expect(absent?.description.contains("liblatchkey-missing.so.1") == true)
    }
}
