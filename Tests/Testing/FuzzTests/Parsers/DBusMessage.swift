/// Messages on a bus, little-endian (D-Bus Specification, section "Message Format").
enum DBusMessage {
    private static let client = ":1.1"

    static func call(_ path: String, signature: [UInt8], body: [UInt8]) -> [UInt8] {
        message(
            type: 1, body: body,
            [
                (1, "o", text(path)), (2, "s", text("org.latchkey.Presence1")),
                (3, "s", text("Approve")),
                (6, "s", text(client)), (7, "s", text(":1.2")),
                (8, "g", [UInt8(truncatingIfNeeded: signature.count)] + signature + [0]),
            ])
    }

    /// The answer to `Hello`.
    static func welcome(to serial: UInt32) -> [UInt8] {
        message(
            type: 2, body: text(client),
            [
                (5, "u", number(serial)), (6, "s", text(client)),
                (7, "s", text("org.freedesktop.DBus")),
                (8, "g", [1, UInt8(ascii: "s"), 0]),
            ])
    }

    /// The serial number of the first call after the authentication.
    static func serialOfCall(in bytes: [UInt8]) -> UInt32? {
        let begin = Array("BEGIN\r\n".utf8)
        var rest = bytes[...]
        while !rest.isEmpty, !rest.starts(with: begin) { rest = rest.dropFirst() }
        if !rest.isEmpty { rest = rest.dropFirst(begin.count) } else { rest = bytes[...] }
        guard rest.count >= 16, rest.first == UInt8(ascii: "l") else { return nil }
        return rest.dropFirst(8).prefix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    private static func message(type: UInt8, body: [UInt8], _ fields: [(UInt8, String, [UInt8])])
        -> [UInt8]
    {
        var array: [UInt8] = []
        for (code, signature, value) in fields {
            array.pad(to: 8)
            array += [code, UInt8(signature.utf8.count)] + Array(signature.utf8) + [0]
            if signature != "g" { array.pad(to: 4) }
            array += value
        }
        var message = [UInt8(ascii: "l"), type, 0, 1] + number(UInt32(body.count)) + number(1)
        message += number(UInt32(array.count)) + array
        message.pad(to: 8)
        return message + body
    }

    private static func text(_ text: String) -> [UInt8] {
        number(UInt32(text.utf8.count)) + Array(text.utf8) + [0]
    }

    private static func number(_ number: UInt32) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian) { Array($0) }
    }
}

extension [UInt8] {
    fileprivate mutating func pad(to alignment: Int) {
        while count % alignment != 0 { append(0) }
    }
}
