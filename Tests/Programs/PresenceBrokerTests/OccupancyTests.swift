import Testing

@testable import latchkey_presenced

/// The limit on concurrent calls.
struct OccupancyTests {
    @Test func `concurrent calls are limited for each user and in total`() {
        var occupancy = Occupancy<UInt32>(perKind: 2, total: 3)
        let first = [occupancy.enter(1), occupancy.enter(1), occupancy.enter(1)]
        #expect(first == [true, true, false])
        let others = [occupancy.enter(2), occupancy.enter(3)]
        #expect(others == [true, false], "the total limit")
        occupancy.leave(1)
        occupancy.leave(9)
        let later = [occupancy.enter(3), occupancy.enter(3)]
        #expect(later == [true, false], "leaving without entering changes nothing")
    }
}
