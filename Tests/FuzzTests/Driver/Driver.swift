import Glibc

/// libFuzzer's program: `fuzz --target NAME [libFuzzer's own flags] CORPUS…`.
enum Driver {
    /// Set once, before the first input.
    nonisolated(unsafe) private static var target: FuzzTarget?

    /// Takes `--target NAME` out of the arguments, which are libFuzzer's otherwise; `--list` prints all names.
    static func start(
        _ count: UnsafeMutablePointer<CInt>,
        _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
    ) {
        let words = (0..<Int(count.pointee)).map { arguments.pointee[$0].map { String(cString: $0) } ?? "" }
        if words.contains("--list") {
            for target in FuzzTarget.all { print(target.name) }
            exit(0)
        }
        guard let index = words.firstIndex(of: "--target"), index + 1 < words.count,
            let found = FuzzTarget.all.first(where: { $0.name == words[index + 1] })
        else {
            print("fuzz: name a target, one of:", FuzzTarget.all.map(\.name).joined(separator: " "))
            exit(2)
        }
        target = found
        for position in index..<(words.count - 2) { arguments.pointee[position] = arguments.pointee[position + 2] }
        count.pointee -= 2
        arguments.pointee[words.count - 2] = nil
    }

    static func run(_ input: UnsafeBufferPointer<UInt8>) {
        do throws(FuzzTarget.Contradiction) {
            try target?.run(Array(input))
        } catch {
            fatalError("\(error)")
        }
    }
}

@_cdecl("LLVMFuzzerInitialize")
func initialize(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> CInt {
    Driver.start(count, arguments)
    return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Driver.run(UnsafeBufferPointer(start: start, count: count))
    return 0
}
