import LatchkeySimulators
import LatchkeyTesting
import Testing

private let isCompiledOnly = Comment("the code of a documentation comment")

@Suite(.disabled(isCompiledOnly)) struct TPMComment {
    @Test(.softwareTPM) func `a key signs`() async throws {
        let tpm = try SoftwareTPM.current
        #expect(!tpm.tcti.isEmpty)
    }
}

@Suite(.disabled(isCompiledOnly)) struct TokenComment {
    @Test(.softwareToken) func `a key signs`() async throws {
        let token = try SoftwareToken.current
        #expect(!token.uri.isEmpty)
    }
}

@Suite(.disabled(isCompiledOnly)) struct FingerComment {
    @Test(.virtualFinger) func `a finger opens`() async throws {
        let reader = try VirtualFingerprintReader.current
        #expect(!reader.busAddress.isEmpty)
    }
}

@Suite(.disabled(isCompiledOnly)) struct YubiKeyComment {
    @Test(.virtualYubiKey) func `yubico-piv-tool sees it`() async throws {
        let yubiKey = try VirtualYubiKey.current
        _ = yubiKey
    }
}
