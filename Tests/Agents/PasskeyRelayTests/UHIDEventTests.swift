import CUHID
import Foundation
import Testing

@testable import latchkey_uhid

/// Compares the relay's bytes with the structures of the kernel's header.
struct UHIDEventTests {
    @Test func `the event that creates a device has the layout of the kernel`() throws {
        let event = UHIDEvent.creation(user: 4_294_967_294)
        func text(_ field: Int32) -> String {
            String(
                decoding: event[latchkey_uhid_create2_offset(field)...].prefix { $0 != 0 },
                as: UTF8.self)
        }
        func number<N: FixedWidthInteger>(_ field: Int32, _: N.Type) -> N {
            event.withUnsafeBytes {
                $0.loadUnaligned(fromByteOffset: latchkey_uhid_create2_offset(field), as: N.self)
            }
        }
        #expect(
            event.withUnsafeBytes { latchkey_uhid_type($0.baseAddress) } == UHID_CREATE2.rawValue)
        #expect(text(0) == "Latchkey passkeys")
        #expect(text(1) == "latchkey")
        #expect(text(2) == "4294967294")
        #expect(number(3, UInt16.self) == 34)
        #expect(number(4, UInt16.self) == 3)
        #expect(number(5, UInt32.self) == 0x1209)
        #expect(number(6, UInt32.self) == 0x4C4B)
        #expect(number(8, UInt32.self) == 0)
        let descriptor = "06d0f10901a1010920150026ff007508954081020921150026ff00750895409102c0"
        #expect(
            event[latchkey_uhid_create2_offset(9)...].map { String(format: "%02x", $0) }.joined()
                == descriptor)
    }

    @Test func `the product number is the one of the udev rule`() throws {
        let rules = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../packaging/udev/65-latchkey-passkeys.rules")
        let text = try String(contentsOf: rules, encoding: .utf8)
        let pattern = String(
            format: "%04X:%04X:%04X.*", Int(HIDIdentity.bus), HIDIdentity.vendor,
            HIDIdentity.product)
        let matches = text.split(separator: "\n").filter { $0.contains("KERNELS==") }
        #expect(!matches.isEmpty)
        #expect(matches.allSatisfy { $0.contains("KERNELS==\"\(pattern)\"") })
    }

    @Test func `a client's packet is decoded`() {
        let packet = (0..<64).map { UInt8($0 + 100) }
        #expect(event(output: [0] + packet) == .packet(packet))
    }

    @Test(
        arguments: [(64, 0, 1), (66, 0, 1), (65, 7, 1), (65, 0, 2), (0, 0, 1), (4096, 0, 1)]
            as [(Int, UInt8, UInt8)])
    func `an output of another form is no packet`(size: Int, first: UInt8, type: UInt8) {
        let data = [first] + [UInt8](repeating: 1, count: 4096)
        #expect(
            event(output: Array(data.prefix(size)), type: type)
                == .other(type: UHID_OUTPUT.rawValue))
    }

    @Test func `every truncated event is refused or decoded without reading past its end`() {
        for type in UInt32(0)...20 {
            for length in 0...4380 where length < 16 || length > 4090 {
                let bytes =
                    (withUnsafeBytes(of: type, Array.init) + [UInt8](repeating: 0, count: 4380))
                    .prefix(length)
                // Memory of exactly this length, so that Address Sanitizer finds a longer read.
                let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
                defer { memory.deallocate() }
                memory.copyBytes(from: bytes)
                let event = UHIDEvent(UnsafeRawBufferPointer(memory))
                if length < 4 { #expect(event == nil) }
                if case .packet = event { Issue.record("an event without data is no packet") }
            }
        }
    }

    @Test func `requests for reports are refused with EIO`() {
        for (type, reply) in [
            (UHID_GET_REPORT, UHID_GET_REPORT_REPLY), (UHID_SET_REPORT, UHID_SET_REPORT_REPLY),
        ] {
            var memory = [UInt8](repeating: 0, count: latchkey_uhid_event_size())
            latchkey_uhid_request(&memory, type.rawValue, 0xDEAD_BEEF)
            let answer: [UInt8]
            switch memory.withUnsafeBytes({ UHIDEvent($0) }) {
            case .getReport(let id): answer = UHIDEvent.refusalOfGetReport(id)
            case .setReport(let id): answer = UHIDEvent.refusalOfSetReport(id)
            default: answer = []
            }
            #expect(answer.count >= 10)
            let padded =
                answer + [UInt8](repeating: 0, count: latchkey_uhid_event_size() - answer.count)
            #expect(latchkey_uhid_type(padded) == reply.rawValue)
            #expect(latchkey_uhid_reply_id(padded) == 0xDEAD_BEEF)
            #expect(latchkey_uhid_reply_error(padded) == UInt32(EIO))
        }
    }

    @Test func `a packet for the clients has the layout of the kernel`() {
        let packet = (0..<64).map { UInt8($0) }
        let event = UHIDEvent.input(packet)
        let padded = event + [UInt8](repeating: 0, count: latchkey_uhid_event_size() - event.count)
        #expect(latchkey_uhid_type(padded) == UHID_INPUT2.rawValue)
        #expect(latchkey_uhid_input_size(padded) == 64)
        padded.withUnsafeBytes { bytes in
            #expect(
                Array(
                    UnsafeBufferPointer(
                        start: latchkey_uhid_input_data(bytes.baseAddress), count: 64)) == packet)
        }
        #expect(UHIDEvent.maximumBytes == latchkey_uhid_event_size())
    }

    private func event(output data: [UInt8], type: UInt8 = 1) -> UHIDEvent? {
        var memory = [UInt8](repeating: 0, count: latchkey_uhid_event_size())
        latchkey_uhid_output(&memory, data, UInt16(data.count), type)
        return memory.withUnsafeBytes { UHIDEvent($0) }
    }
}
