import Testing

@testable import LatchkeySSH

struct AgentMessageTests {
    private func message(_ type: UInt8, _ write: (inout SSHWriter) -> Void = { _ in }) -> [UInt8] {
        var writer = SSHWriter()
        writer.byte(type)
        write(&writer)
        return writer.bytes
    }

    @Test func `a request for a signature is read`() throws {
        let request = try AgentRequest(
            message(13) {
                $0.string([1, 2])
                $0.string([3])
                $0.uint32(4)
            })
        #expect(request == .sign(publicKey: [1, 2], data: [3], flags: 4))
    }

    @Test func `requests that change the agent are unsupported`() throws {
        for type: UInt8 in [17, 18, 19, 20, 21, 22, 23, 25, 26, 0, 255] {
            #expect(try AgentRequest(message(type)) == .unsupported(type: type))
        }
    }

    @Test func `every truncated request is refused`() throws {
        let server = SampleServer()
        let bind = try server.bind(SampleData.session)
        let whole = message(27) {
            $0.string("session-bind@openssh.com")
            $0.string(bind.hostKey)
            $0.string(bind.sessionID)
            $0.string(bind.signature)
            $0.byte(0)
        }
        #expect(try AgentRequest(whole) == .bindSession(bind))
        for count in 0..<whole.count {
            #expect(throws: SSHFormatError.self, "\(count)") {
                try AgentRequest(whole.prefix(count))
            }
        }
        #expect(throws: SSHFormatError.self) { try AgentRequest(whole + [0]) }
    }

    @Test func `a length beyond the message is refused without reading it`() throws {
        #expect(throws: SSHFormatError.self) { try AgentRequest([13, 0xFF, 0xFF, 0xFF, 0xFF]) }
    }

    @Test func `messages are assembled from any parts`() throws {
        let frame = AgentAnswer.identities([([9, 9], "key")]).frame
        var buffer = FrameBuffer()
        var messages: [[UInt8]] = []
        for byte in frame + frame {
            #expect(try buffer.missing() > 0)
            buffer.append([byte])
            while let message = try buffer.next() { messages.append(message) }
        }
        #expect(messages == [Array(frame.dropFirst(4)), Array(frame.dropFirst(4))])
        #expect(!buffer.isPartial)
    }

    @Test func `an empty or oversized message is refused at its length`() throws {
        for length: [UInt8] in [[0, 0, 0, 0], [0, 4, 0, 1], [0xFF, 0xFF, 0xFF, 0xFF]] {
            var buffer = FrameBuffer()
            buffer.append(length)
            #expect(throws: SSHFormatError.self) { try buffer.missing() }
            #expect(throws: SSHFormatError.self) { try buffer.next() }
        }
    }

    @Test func `numbers are written without leading zeros and never negative`() {
        func written(_ number: [UInt8]) -> [UInt8] {
            var writer = SSHWriter()
            writer.mpint(number)
            return writer.bytes
        }
        #expect(written([0, 0]) == [0, 0, 0, 0])
        #expect(written([0, 1]) == [0, 0, 0, 1, 1])
        #expect(written([0x80]) == [0, 0, 0, 2, 0, 0x80])
    }
}
