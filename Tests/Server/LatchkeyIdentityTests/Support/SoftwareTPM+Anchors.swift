import Foundation
import LatchkeySimulators

extension SoftwareTPM {
    /// Writes the certificates of the TPM's authority to a directory of anchors.
    ///
    /// - Returns: The path of the directory.
    nonisolated func anchors(in directory: TemporaryDirectory) throws -> String {
        let path = directory.path(of: "anchors")
        for (folder, file) in [
            ("roots", rootCertificatePath),
            ("intermediates", stateDirectory + "/ca/issuercert.pem"),
        ] {
            let folder = "\(path)/simulated/\(folder)"
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: file, toPath: "\(folder)/ca.pem")
        }
        return path
    }
}
