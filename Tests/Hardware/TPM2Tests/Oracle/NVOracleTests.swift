import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Indices that one side makes, writes and counts up, and the other reads and proves.
@Suite(.softwareTPM) struct `ESAPI and TPM2 use each other's indices` {
    private static let handle: UInt32 = 0x0150_0031
    private static let counter = area([.ownerWrite, .authRead, .ownerRead, .noDA, .counter])
    private static let pinFail = area(
        [.ownerWrite, .authRead, .ownerRead, .noDA, .pinFail], policy: changePolicy)
    private static let changePolicy = PolicyDigest().authValue().commandCode(.nvChangeAuth)
    private static let reference = [UInt8](repeating: 0xA5, count: 32)

    private static func area(_ attributes: NVAttributes, policy: PolicyDigest? = nil)
        -> NVPublicArea
    {
        NVPublicArea(
            index: TPMHandle(rawValue: handle), attributes: attributes,
            authPolicy: policy?.bytes ?? [], dataSize: 8)
    }

    @Test(arguments: [counter, pinFail]) func `a public area and its Name`(_ area: NVPublicArea)
        async throws
    {
        let tcti = try SoftwareTPM.current.tcti
        try await NativeTPM.connect(to: tcti) { native in
            _ = try native.tpm.execute(NVDefineSpace(area))
        }
        let theirs = try await ESAPI.connect(to: tcti) { esys in
            try esys.publicArea(of: esys.index(Self.handle))
        }
        #expect(theirs.area == area.marshalled)
        #expect(try area.name.bytes == theirs.name)
        try await NativeTPM.connect(to: tcti) { native in
            try native.tpm.execute(NVUndefineSpace(NVIndex(publicArea: area)))
        }
        try await ESAPI.connect(to: tcti) { esys in _ = try esys.defineIndex(area.marshalled) }
        let ours = try await NativeTPM.connect(to: tcti) { native in
            try native.tpm.execute(NVReadPublic(TPMHandle(rawValue: Self.handle)))
        }
        #expect(ours.publicArea == area)
    }

    @Test func `a counter that both implementations increment`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let first = try await ESAPI.connect(to: tcti) { esys in
            let index = try esys.defineIndex(Self.counter.marshalled)
            try esys.increment(index)
            let (area, name) = try esys.publicArea(of: index)
            #expect(area == Self.counter.written.marshalled)
            #expect(try Self.counter.written.name.bytes == name)
            return try esys.read(index, count: 8)
        }
        let second = try await NativeTPM.connect(to: tcti) { native in
            let index = try NVIndex(publicArea: Self.counter.written)
            #expect(try native.tpm.nvRead(index) == first)
            try native.tpm.execute(NVIncrement(index, by: Hierarchy.owner))
            return try native.tpm.nvRead(index)
        }
        #expect(second.reversed().first == first.last.map { $0 + 1 })
        let theirs = try await ESAPI.connect(to: tcti) { esys in
            try esys.read(esys.index(Self.handle), count: 8)
        }
        #expect(theirs == second)
    }

    @Test func `PolicyNV over a counter`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let (value, theirs) = try await ESAPI.connect(to: tcti) { esys in
            let index = try esys.defineIndex(Self.counter.marshalled)
            try esys.increment(index)
            let value = try esys.read(index, count: 8)
            return (
                value,
                try esys.policyDigest { esys, session in
                    try esys.policyNVEquals(session, value, in: index)
                }
            )
        }
        #expect(PolicyDigest().nvEquals(value, in: try Self.counter.written.name).bytes == theirs)
        let ours = try await NativeTPM.connect(to: tcti) { native in
            try native.policyDigest { session in
                try native.tpm.execute(
                    PolicyNV(equals: value, in: NVIndex(publicArea: Self.counter.written)),
                    in: session)
            }
        }
        #expect(ours == theirs)
    }

    /// TPM2 makes the index, with a PIN that crosses the bus encrypted, and sets its count; ESAPI
    /// guesses.
    @Test func `a PIN, its count and its change`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        try await NativeTPM.connect(to: tcti) { native in
            try native.inSession { session in
                _ = try native.tpm.execute(
                    NVDefineSpace(Self.pinFail, authValue: native.value(Array("1234".utf8))),
                    authorizedBy: .lastUse(of: session, protecting: .decrypt))
            }
            try native.tpm.execute(
                NVWrite(
                    SensitiveData([0, 0, 0, 0, 0, 0, 0, 5]), to: NVIndex(publicArea: Self.pinFail),
                    by: Hierarchy.owner))
        }
        // TPM_RC_BAD_AUTH, session 1.
        #expect(try await prove("1235")?.code == 0x9A2)
        #expect(try await count() == [0, 0, 0, 1, 0, 0, 0, 5])
        #expect(try await prove("1234") == nil)
        #expect(try await count() == [0, 0, 0, 0, 0, 0, 0, 5])
        try await NativeTPM.connect(to: tcti) { native in
            try native.inSession(.policy) { session in
                try native.tpm.execute(PolicyAuthValue(), in: session)
                try native.tpm.execute(PolicyCommandCode(.nvChangeAuth), in: session)
                try native.tpm.execute(
                    NVChangeAuth(
                        of: NVIndex(publicArea: Self.pinFail.written),
                        to: native.value(Array("4321".utf8))),
                    authorizedBy: .lastUse(
                        of: session, authValue: native.value(Array("1234".utf8)),
                        protecting: .decrypt))
            }
        }
        #expect(try await prove("1234")?.code == 0x9A2)
        #expect(try await prove("4321") == nil)
    }

    /// ESAPI makes the index and writes its count; TPM2 reads it, and computes the digest of its
    /// proof.
    @Test func `PolicySecret of a PIN`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let theirs = try await ESAPI.connect(to: tcti) { esys in
            let index = try esys.defineIndex(Self.pinFail.marshalled, authValue: Array("1234".utf8))
            try esys.write([0, 0, 0, 0, 0, 0, 0, 5], to: index)
            return try esys.policyDigest { esys, session in
                try esys.policySecret(
                    session, of: index, by: ESAPI.password, policyRef: Self.reference)
            }
        }
        let index = try NVIndex(publicArea: Self.pinFail.written)
        #expect(PolicyDigest().secret(of: index.name, policyRef: Self.reference).bytes == theirs)
        let ours = try await NativeTPM.connect(to: tcti) { native in
            #expect(try native.tpm.nvRead(index, by: Hierarchy.owner) == [0, 0, 0, 0, 0, 0, 0, 5])
            return try native.policyDigest { policy in
                _ = try native.inSession { proof in
                    try native.tpm.execute(
                        PolicySecret(Approval(policyRef: Self.reference), of: index), in: policy,
                        authorizedBy: .lastUse(
                            of: proof, authValue: native.value(Array("1234".utf8))))
                }
            }
        }
        #expect(ours == theirs)
    }

    // MARK: ESAPI's look at the PIN

    /// - Returns: How the proof failed.
    private func prove(_ pin: String) async throws -> ESAPI.Failure? {
        try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let index = try esys.index(Self.handle)
            try esys.setAuthValue(Array(pin.utf8), of: index)
            let proof = try esys.startSession(.hmac)
            defer { try? esys.flush(proof) }
            do {
                _ = try esys.policyDigest { esys, session in
                    try esys.policySecret(session, of: index, by: proof, policyRef: [])
                }
                return nil
            } catch let failure as ESAPI.Failure {
                return failure
            }
        }
    }

    private func count() async throws -> [UInt8] {
        try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            try esys.read(esys.index(Self.handle), count: 8)
        }
    }
}
