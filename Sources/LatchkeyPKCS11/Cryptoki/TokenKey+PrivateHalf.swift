internal import CPKCS11

extension TokenKey: PrivateHalf {
    var secrets: [UInt] { [CKA_VALUE] }
}
