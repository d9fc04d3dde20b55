internal import FoundationEssentials
public import Latchkey

/// A resource manager between programs and one software TPM: `tpm2-abrmd` on a system bus of the caller's.
///
/// A host has one in the kernel (`/dev/tpmrm0`). Behind it programs share a TPM as if each had its own places for objects
/// and sessions.
public actor ResourceManager {
    /// How programs on that bus reach the TPM. They take the bus from `DBUS_SYSTEM_BUS_ADDRESS`.
    public static let tcti = "tabrmd:bus_type=system"
    private static let name = "com.intel.tss2.Tabrmd"

    private let process: ChildProcess

    /// - Throws: `KeystoreError` with code `unavailable` when `tpm2-abrmd` is not installed or does not answer within
    ///   ten seconds.
    public init(_ tpm: SoftwareTPM, busAddress: String) async throws(KeystoreError) {
        process = try await ChildProcess(
            "tpm2-abrmd", arguments: ["--allow-root", "--tcti=\(tpm.tcti)"],
            environment: ["DBUS_SYSTEM_BUS_ADDRESS": busAddress])
        let result = try await HelperProgram.run(
            "gdbus", ["wait", "--address", busAddress, "--timeout", "10", Self.name], within: .seconds(11))
        guard result.isSuccess else {
            let complaint = await process.end(by: .kill)
            throw .simulatorFailed("tpm2-abrmd did not answer", text: complaint)
        }
    }

    /// Ends the resource manager and its bus. The TPM behind it stays.
    public func end() async {
        await process.end(by: .kill)
    }
}
