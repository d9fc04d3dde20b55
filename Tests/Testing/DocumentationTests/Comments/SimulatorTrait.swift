import LatchkeySimulators
import LatchkeyTesting
import Testing

@Suite(.requires(program: "swtpm")) struct TPMComment {
    @Test(.softwareTPM) func `a key signs`() async throws {
        let tpm = try SoftwareTPM.current
        #expect(!tpm.tcti.isEmpty)
    }
}

@Suite(.requires(program: "softhsm2-util")) struct TokenComment {
    @Test(.softwareToken) func `a key signs`() async throws {
        let token = try SoftwareToken.current
        #expect(!token.uri.isEmpty)
    }
}

@Suite(.requires(program: "dbus-daemon"), .requires(program: "fprintd-verify"))
struct FingerComment {
    @Test(.virtualFinger) func `a finger opens`() async throws {
        let reader = try VirtualFingerprintReader.current
        #expect(!reader.busAddress.isEmpty)
    }
}

struct YubiKeyComment {
    @Test(.virtualYubiKey) func `yubico-piv-tool sees it`() async throws {
        let yubiKey = try VirtualYubiKey.current
        _ = yubiKey
    }
}
