import CLibFuzzer
import Glibc

/// libFuzzer's program: `fuzz --target NAME [libFuzzer's own flags] CORPUS…`, or `fuzz --list`.
///
/// Swift's `main` calls libFuzzer: SwiftPM generates a `main` for every executable, so the one of
/// libFuzzer is not linked.
@main
enum Driver {
    /// Set once, before the first input.
    nonisolated(unsafe) private static var target: FuzzTarget?

    static func main() {
        var arguments = Array(CommandLine.arguments)
        if arguments.contains("--list") {
            for target in FuzzTarget.all { print(target.name) }
            exit(0)
        }
        guard let index = arguments.firstIndex(of: "--target"), index + 1 < arguments.count,
            let found = FuzzTarget.all.first(where: { $0.name == arguments[index + 1] })
        else {
            print("fuzz: name a target, one of:", FuzzTarget.all.map(\.name).joined(separator: " "))
            exit(2)
        }
        target = found
        arguments.removeSubrange(index...(index + 1))
        exit(fuzz(arguments))
    }

    /// Runs until libFuzzer reaches its limit. The first finding ends the program.
    private static func fuzz(_ arguments: [String]) -> CInt {
        var count = CInt(arguments.count)
        // Like the arguments of C's `main`, ends with a null pointer.
        var pointers = arguments.map { strdup($0) } + [nil]
        return pointers.withUnsafeMutableBufferPointer { buffer in
            var start = buffer.baseAddress
            return LLVMFuzzerRunDriver(&count, &start, testOneInput)
        }
    }

    static func run(_ input: UnsafeBufferPointer<UInt8>) {
        do throws(FuzzTarget.Contradiction) {
            try target?.run(Array(input))
        } catch {
            fatalError("\(error)")
        }
    }
}

/// The `main` of libFuzzer's library, which is not used, refers to this name.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Driver.run(UnsafeBufferPointer(start: start, count: count))
    return 0
}
