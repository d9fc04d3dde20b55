internal import Crypto

/// The digests that bind authorizations to commands and responses (TPM 2.0 Part 1 sections 16.7 and 16.8), with
/// SHA-256.
package enum ParameterHash {
    /// `cpHash = H(commandCode ‖ Names of the handles ‖ parameters)`: what an approval of this very command names.
    ///
    /// - Parameter parameters: As they go over the wire.
    package static func command(_ code: TPMCommandCode, names: [TPMName], parameters: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(data: code.rawValue.bigEndianBytes)
        for name in names { hash.update(data: name.bytes) }
        hash.update(data: parameters)
        return Array(hash.finalize())
    }

    /// `rpHash = H(responseCode ‖ commandCode ‖ parameters)`, for a command that succeeded.
    package static func response(_ code: TPMCommandCode, parameters: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(data: ResponseCode.success.rawValue.bigEndianBytes)
        hash.update(data: code.rawValue.bigEndianBytes)
        hash.update(data: parameters)
        return Array(hash.finalize())
    }
}
