import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Synchronization
import Testing

@Suite(.softwareTPM) struct `The trait .softwareTPM` {
    private static let seen = Mutex<Set<String>>([])

    @Test(arguments: 0..<24) func `gives each test case its own TPM`(_ number: Int) async throws {
        let tpm = try SoftwareTPM.current
        #expect(await tpm.isRunning)
        let isNew = Self.seen.withLock { $0.insert(tpm.tcti).inserted }
        #expect(isNew)
    }
}

@Suite struct `A test without the trait .softwareTPM` {
    @Test func `gets an error that names the trait`() {
        let error = #expect(throws: KeystoreError.self) { try SoftwareTPM.current }
        #expect(error?.code == .wrongState)
        // Swift Testing prints the description, and not the recovery.
        #expect(error?.description.contains("the trait .softwareTPM") == true)
    }
}
