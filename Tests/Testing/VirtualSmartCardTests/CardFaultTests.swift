import Testing

@testable import VirtualSmartCard

/// Faults that tests inject.
struct CardFaultTests {
    private static let select: [UInt8] = [0x00, 0xA4, 0x04, 0x00]
    private static let read: [UInt8] = [0x00, 0xCB, 0x3F, 0xFF]

    @Test func `a fault happens once, at the chosen command`() {
        var faults = [CardFault(.removal, atCommand: 2)]
        #expect(CardFault.due(at: Self.select, in: &faults) == nil)
        #expect(CardFault.due(at: Self.read, in: &faults) == .removal)
        #expect(CardFault.due(at: Self.read, in: &faults) == nil)
    }

    @Test func `a fault counts only commands with its instruction`() {
        var faults = [CardFault(.status(.internalError), atCommand: 2, instruction: 0xCB)]
        #expect(CardFault.due(at: Self.read, in: &faults) == nil)
        #expect(CardFault.due(at: Self.select, in: &faults) == nil)
        #expect(CardFault.due(at: [], in: &faults) == nil)
        #expect(CardFault.due(at: Self.read, in: &faults) == .status(.internalError))
    }

    @Test func `each fault counts commands separately, and the first of two due faults happens`() {
        var faults = [
            CardFault(.status(.notFound), atCommand: 2), CardFault(.removal, atCommand: 2),
            CardFault(.removal),
        ]
        #expect(CardFault.due(at: Self.read, in: &faults) == .removal)
        #expect(CardFault.due(at: Self.read, in: &faults) == .status(.notFound))
        #expect(CardFault.due(at: Self.read, in: &faults) == nil)
    }
}
