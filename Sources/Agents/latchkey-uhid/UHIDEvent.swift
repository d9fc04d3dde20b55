/// The events of `/dev/uhid` that the relay reads and writes (Linux, `include/uapi/linux/uhid.h`):
/// packed structures with integers in the machine's byte order. One read or write is one event.
enum UHIDEvent: Equatable {
    /// A packet from a program that has opened the device.
    case packet([UInt8])
    /// A request for a report, which the driver does not offer. Without a reply, the program waits
    /// for 5 s.
    case getReport(id: UInt32)
    case setReport(id: UInt32)
    /// The last program has closed the device.
    case closed
    /// An event that needs no action: the device was started, stopped or opened, or the report has
    /// another form.
    case other(type: UInt32)

    /// The length of a CTAPHID packet in bytes (CTAP 2.1, section 11.2.4).
    static let packetBytes = 64
    /// The size of `struct uhid_event` in bytes, with its padding.
    static let maximumBytes = 4380

    /// The numbers of `enum uhid_event_type`.
    private enum Number {
        static let close: UInt32 = 5
        static let output: UInt32 = 6
        static let getReport: UInt32 = 9
        static let getReportReply: UInt32 = 10
        static let create2: UInt32 = 11
        static let input2: UInt32 = 12
        static let setReport: UInt32 = 13
        static let setReportReply: UInt32 = 14
    }

    /// `UHID_DATA_MAX`: the size of an event's data field.
    private static let dataBytes = 4096
    /// `UHID_OUTPUT_REPORT`.
    private static let outputReport: UInt8 = 1
    /// `EIO`, the error of a report that the device does not have.
    private static let inputOutputError: UInt16 = 5

    /// Decodes an event. A client's packet has 65 bytes: the report number 0 and the 64 bytes.
    ///
    /// - Returns: nil if the bytes are too few for the event's type.
    init?(_ event: UnsafeRawBufferPointer) {
        guard event.count >= 4 else { return nil }
        let type = event.loadUnaligned(as: UInt32.self)
        switch type {
        case Number.output:
            // struct uhid_output_req: data[4096], u16 size, u8 rtype.
            guard event.count >= 4 + Self.dataBytes + 3 else { return nil }
            let size = event.loadUnaligned(fromByteOffset: 4 + Self.dataBytes, as: UInt16.self)
            guard size == Self.packetBytes + 1, event[4 + Self.dataBytes + 2] == Self.outputReport,
                event[4] == 0
            else {
                self = .other(type: type)
                return
            }
            self = .packet(Array(event[5..<5 + Self.packetBytes]))
        case Number.getReport, Number.setReport:
            guard event.count >= 8 else { return nil }
            let id = event.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
            self = type == Number.getReport ? .getReport(id: id) : .setReport(id: id)
        case Number.close: self = .closed
        default: self = .other(type: type)
        }
    }

    /// `UHID_INPUT2`: a packet for the programs that have opened the device.
    ///
    /// - Parameter packet: 64 bytes.
    static func input(_ packet: some Collection<UInt8>) -> [UInt8] {
        bytes(Number.input2) + bytes(UInt16(packet.count)) + packet
    }

    /// The reply to ``getReport(id:)``: `EIO`, without data.
    static func refusalOfGetReport(_ id: UInt32) -> [UInt8] {
        bytes(Number.getReportReply) + bytes(id) + bytes(inputOutputError) + bytes(UInt16(0))
    }

    /// The reply to ``setReport(id:)``: `EIO`.
    static func refusalOfSetReport(_ id: UInt32) -> [UInt8] {
        bytes(Number.setReportReply) + bytes(id) + bytes(inputOutputError)
    }

    /// `UHID_CREATE2`: creates the device. Except for the user's ID, all bytes are constants.
    static func creation(user: UInt32) -> [UInt8] {
        bytes(Number.create2) + field(HIDIdentity.name, 128) + field(HIDIdentity.location, 64)
            + field(String(user), 64) + bytes(UInt16(HIDIdentity.reportDescriptor.count))
            + bytes(HIDIdentity.bus)
            + bytes(HIDIdentity.vendor) + bytes(HIDIdentity.product) + bytes(HIDIdentity.version)
            + bytes(UInt32(0))
            + HIDIdentity.reportDescriptor
    }

    private static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value, Array.init)
    }

    /// The text with zeros to the length of its field.
    private static func field(_ text: String, _ length: Int) -> [UInt8] {
        let text = Array(text.utf8.prefix(length - 1))
        return text + [UInt8](repeating: 0, count: length - text.count)
    }
}

/// How the device describes itself to the kernel and to programs. All text is printable ASCII:
/// other bytes in a name make udev rules of other packages fail.
enum HIDIdentity {
    static let name = "Latchkey passkeys"
    /// The location, `HID_PHYS`.
    static let location = "latchkey"
    /// `BUS_USB`. libfido2 ignores devices on other buses.
    static let bus: UInt16 = 3
    /// The vendor of pid.codes, and a product number for this device. `65-latchkey-passkeys.rules`
    /// contains both.
    static let vendor: UInt32 = 0x1209
    static let product: UInt32 = 0x4C4B
    static let version: UInt32 = 0x0100

    /// A FIDO device with reports of 64 bytes in both directions and no report numbers (CTAP 2.1,
    /// section 11.2.8.2).
    static let reportDescriptor: [UInt8] = [
        0x06, 0xD0, 0xF1,  // usage page: FIDO Alliance
        0x09, 0x01,  // usage: CTAPHID
        0xA1, 0x01,  // collection: application
        // data in: 64 bytes, 0 to 255
        0x09, 0x20, 0x15, 0x00, 0x26, 0xFF, 0x00, 0x75, 0x08, 0x95, 0x40, 0x81, 0x02,
        // data out: 64 bytes, 0 to 255
        0x09, 0x21, 0x15, 0x00, 0x26, 0xFF, 0x00, 0x75, 0x08, 0x95, 0x40, 0x91, 0x02,
        0xC0,  // end of the collection
    ]
}
