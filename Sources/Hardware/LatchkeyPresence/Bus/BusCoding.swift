internal import CSystemd
internal import Glibc
internal import Synchronization

/// Encodes and decodes the arguments of messages. Received messages are untrusted: arguments of an
/// unknown type are skipped.
enum BusCoding {
    /// The maximum number of bytes of texts and arrays that are read from a message. Expected
    /// messages are shorter; a message can have 32 MiB.
    private static let maximumBytes = 1 << 16

    /// The maximum number of bytes of texts and arrays in a call to this program. Calls are stored
    /// until they are answered.
    static let maximumCallBytes = 1 << 14

    /// The decoded arguments of a message.
    struct Arguments {
        fileprivate(set) var values: [BusValue] = []
        /// The number of bytes that can still be read; below 0 if the message has more.
        fileprivate var budget: Int
        fileprivate var hasSkipped = false

        /// Whether the whole message was decoded.
        var isWhole: Bool { budget >= 0 && !hasSkipped }

        /// - Returns: Whether the bytes can be read.
        fileprivate mutating func takes(_ bytes: Int) -> Bool {
            budget = budget < bytes ? -1 : budget - bytes
            return budget >= 0
        }
    }

    static func append(_ values: [BusValue], to message: OpaquePointer) throws(BusError) {
        for value in values { try append(value, to: message) }
    }

    private static func append(_ value: BusValue, to message: OpaquePointer) throws(BusError) {
        switch value {
        case .string(let text): try BusError.check(text.withCString { basic(message, "s", $0) })
        case .objectPath(let text): try BusError.check(text.withCString { basic(message, "o", $0) })
        case .bool(let flag):
            var flag: Int32 = flag ? 1 : 0
            try BusError.check(basic(message, "b", &flag))
        case .int32(var number): try BusError.check(basic(message, "i", &number))
        case .uint32(var number): try BusError.check(basic(message, "u", &number))
        case .uint64(var number): try BusError.check(basic(message, "t", &number))
        case .bytes(let bytes):
            try BusError.check(
                bytes.withUnsafeBytes {
                    sd_bus_message_append_array(
                        message, type("y"), $0.baseAddress, $0.count)
                })
        case .strings(let texts):
            try BusError.check(sd_bus_message_open_container(message, type("a"), "s"))
            for text in texts { try BusError.check(text.withCString { basic(message, "s", $0) }) }
            try BusError.check(sd_bus_message_close_container(message))
        case .dictionary(let entries):
            try BusError.check(sd_bus_message_open_container(message, type("a"), "{sv}"))
            for (key, value) in entries.sorted(by: { $0.key < $1.key }) {
                try BusError.check(sd_bus_message_open_container(message, type("e"), "sv"))
                try append(.string(key), to: message)
                try append(.variant(value), to: message)
                try BusError.check(sd_bus_message_close_container(message))
            }
            try BusError.check(sd_bus_message_close_container(message))
        case .variant(let value):
            try BusError.check(
                sd_bus_message_open_container(message, type("v"), signature(of: value)))
            try append(value, to: message)
            try BusError.check(sd_bus_message_close_container(message))
        case .structure, .array, .descriptor, .other:
            throw BusError(-EINVAL, "encode an argument of a type that is only read")
        }
    }

    static func signature(of value: BusValue) -> String {
        switch value {
        case .string: "s"
        case .objectPath: "o"
        case .bool: "b"
        case .int32: "i"
        case .uint32: "u"
        case .uint64: "t"
        case .bytes: "ay"
        case .strings: "as"
        case .dictionary: "a{sv}"
        case .variant: "v"
        case .structure, .array, .descriptor, .other: ""
        }
    }

    /// Decodes the arguments of a message up to the given number of bytes.
    static func read(_ message: OpaquePointer, atMost bytes: Int = maximumBytes) -> Arguments {
        var arguments = Arguments(budget: bytes)
        while let value = next(message, &arguments) { arguments.values.append(value) }
        return arguments
    }

    private static func next(_ message: OpaquePointer, _ all: inout Arguments) -> BusValue? {
        var kind: CChar = 0
        var contents: UnsafePointer<CChar>?
        guard sd_bus_message_peek_type(message, &kind, &contents) > 0 else { return nil }
        let inner = contents.map { String(cString: $0) } ?? ""
        switch (Character(UnicodeScalar(UInt8(bitPattern: kind))), inner) {
        case ("s", _): return text(message, kind, &all).map(BusValue.string)
        case ("o", _): return text(message, kind, &all).map(BusValue.objectPath)
        case ("b", _): return number(message, kind, Int32(0)).map { .bool($0 != 0) }
        case ("i", _): return number(message, kind, Int32(0)).map(BusValue.int32)
        case ("u", _): return number(message, kind, UInt32(0)).map(BusValue.uint32)
        case ("t", _): return number(message, kind, UInt64(0)).map(BusValue.uint64)
        case ("a", "y"): return bytes(message, &all)
        case ("a", "s"): return strings(message, kind, &all)
        case ("a", "{sv}"): return dictionary(message, kind, &all)
        case ("r", _): return members(message, kind, inner, &all).map(BusValue.structure)
        case ("a", _) where inner.hasPrefix("("):
            return members(message, kind, inner, &all).map(BusValue.array)
        case ("h", _): return descriptor(message, kind)
        default:
            all.hasSkipped = true
            return sd_bus_message_skip(message, nil) >= 0 ? .other : nil
        }
    }

    private static func text(_ message: OpaquePointer, _ kind: CChar, _ all: inout Arguments)
        -> String?
    {
        var pointer: UnsafePointer<CChar>?
        guard sd_bus_message_read_basic(message, kind, &pointer) > 0, let pointer,
            all.takes(strlen(pointer) + 1)
        else {
            return nil
        }
        return String(cString: pointer)
    }

    private static func number<I: FixedWidthInteger>(
        _ message: OpaquePointer, _ kind: CChar, _ zero: I
    ) -> I? {
        var value = zero
        guard sd_bus_message_read_basic(message, kind, &value) > 0 else { return nil }
        return value
    }

    private static func bytes(_ message: OpaquePointer, _ all: inout Arguments) -> BusValue? {
        var pointer: UnsafeRawPointer?
        var count = 0
        guard sd_bus_message_read_array(message, type("y"), &pointer, &count) > 0,
            all.takes(count)
        else {
            return nil
        }
        return .bytes(Array(UnsafeRawBufferPointer(start: pointer, count: count)))
    }

    private static func strings(_ message: OpaquePointer, _ kind: CChar, _ all: inout Arguments)
        -> BusValue?
    {
        guard sd_bus_message_enter_container(message, kind, "s") > 0 else { return nil }
        var texts: [String] = []
        while let text = text(message, type("s"), &all) { texts.append(text) }
        guard sd_bus_message_exit_container(message) >= 0 else { return nil }
        return .strings(texts)
    }

    /// The members of a structure, or of an array of structures.
    private static func members(
        _ message: OpaquePointer, _ kind: CChar, _ contents: String, _ all: inout Arguments
    ) -> [BusValue]? {
        // Each container counts as 8 bytes, so that the number of containers without text is also
        // limited.
        guard all.takes(8), sd_bus_message_enter_container(message, kind, contents) > 0
        else { return nil }
        var values: [BusValue] = []
        while let value = next(message, &all) { values.append(value) }
        guard sd_bus_message_exit_container(message) >= 0 else { return nil }
        return values
    }

    private static func descriptor(_ message: OpaquePointer, _ kind: CChar) -> BusValue? {
        var number: Int32 = -1
        guard sd_bus_message_read_basic(message, kind, &number) > 0 else { return nil }
        return BusDescriptor(duplicating: number).map(BusValue.descriptor)
    }

    private static func dictionary(_ message: OpaquePointer, _ kind: CChar, _ all: inout Arguments)
        -> BusValue?
    {
        guard sd_bus_message_enter_container(message, kind, "{sv}") > 0 else { return nil }
        var entries: [String: BusValue] = [:]
        while sd_bus_message_enter_container(message, type("e"), "sv") > 0 {
            guard let key = text(message, type("s"), &all) else { return nil }
            var inner: CChar = 0
            var contents: UnsafePointer<CChar>?
            guard sd_bus_message_peek_type(message, &inner, &contents) > 0, let contents,
                sd_bus_message_enter_container(message, type("v"), contents) > 0
            else { return nil }
            let isNested = String(cString: contents).hasPrefix("v")
            if isNested { all.hasSkipped = true }
            entries[key] = (isNested ? nil : next(message, &all)) ?? .other
            guard sd_bus_message_exit_container(message) >= 0,
                sd_bus_message_exit_container(message) >= 0
            else {
                return nil
            }
        }
        guard sd_bus_message_exit_container(message) >= 0 else { return nil }
        return .dictionary(entries)
    }

    private static func basic(
        _ message: OpaquePointer, _ kind: Character, _ pointer: UnsafeRawPointer
    ) -> Int32 {
        sd_bus_message_append_basic(message, type(kind), pointer)
    }

    private static func type(_ kind: Character) -> CChar { CChar(bitPattern: kind.asciiValue ?? 0) }
}

/// An argument of a D-Bus message, of the types that the presence broker, fprintd and logind use.
package enum BusValue: Hashable, Sendable {
    case string(String)
    case objectPath(String)
    case bool(Bool)
    case int32(Int32)
    case uint32(UInt32)
    case uint64(UInt64)
    /// `ay`.
    case bytes([UInt8])
    /// `as`.
    case strings([String])
    /// `a{sv}`.
    case dictionary([String: BusValue])
    /// `v`.
    indirect case variant(BusValue)
    /// `(…)`; only read.
    case structure([BusValue])
    /// `a(…)`; only read.
    case array([BusValue])
    /// `h`; only read.
    case descriptor(BusDescriptor)
    /// A value of another type, skipped.
    case other

    package var string: String? {
        switch self {
        case .string(let value), .objectPath(let value): value
        default: nil
        }
    }

    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    package var int32: Int32? { if case .int32(let value) = self { value } else { nil } }
    package var uint32: UInt32? { if case .uint32(let value) = self { value } else { nil } }
    package var uint64: UInt64? { if case .uint64(let value) = self { value } else { nil } }
    package var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }
    package var strings: [String]? { if case .strings(let value) = self { value } else { nil } }
    package var structure: [BusValue]? {
        if case .structure(let value) = self { value } else { nil }
    }
    package var array: [BusValue]? { if case .array(let value) = self { value } else { nil } }
    package var descriptor: BusDescriptor? {
        if case .descriptor(let value) = self { value } else { nil }
    }
    package var dictionary: [String: BusValue]? {
        if case .dictionary(let value) = self { value } else { nil }
    }
}

/// A file descriptor from a message. Closed by ``close()`` or with the last reference.
package final class BusDescriptor: Hashable, Sendable {
    private let number: Mutex<Int32?>

    /// - Returns: nil if the process cannot open more descriptors.
    init?(duplicating original: Int32) {
        let copy = fcntl(original, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { return nil }
        number = Mutex(copy)
    }

    package func close() {
        let number = number.withLock { number in
            defer { number = nil }
            return number
        }
        if let number { Glibc.close(number) }
    }

    deinit { close() }

    package static func == (left: BusDescriptor, right: BusDescriptor) -> Bool { left === right }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
