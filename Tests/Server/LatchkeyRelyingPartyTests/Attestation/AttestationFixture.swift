/// Independent test data, from swtpm (libtpms) and tpm2-tools: keys under one parent, and
/// their attestations by `tpm2_certifycreation` and `tpm2_certify`. Base64.
enum AttestationFixture {
    /// The qualifying data.
    static let challenge: [UInt8] = [
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ]

    /// `TPMT_PUBLIC` of the key: bound, signs only.
    static let key =
        "ACMACwAEAHIAAAAQABgACwADABAAIC7zoI7iKKo8k+4k5TtVCjfx3TbAcCbGAqkpgR13faO8ACBApkTX5vXzNX9xrcjgLRiq"
        + "by/A713SL0SF6OiXF3nkAA=="
    /// `TPMT_PUBLIC` of the restricted signing key.
    static let attestationKey =
        "ACMACwAFAHIAAAAQABgACwADABAAIJyIdCa1gxGnCItQufDQ0Ggb6zFmJF69EU/voLBAHq5QACAiG48uFZe/+e+mpyPAkiDA"
        + "Tkgqx+0CBmiKr76HZfnogg=="
    /// `TPMT_PUBLIC` of a signing key that is not restricted.
    static let unrestrictedKey =
        "ACMACwAEAHIAAAAQABgACwADABAAIIMDbQ8TLwiP2DR8BfNh1WGKJ8Pv+bNhuo7CLtD5zUrIACAZaBuhhn8wlOjCPBywUOei"
        + "mnimlU53Ki9Ph2J4r8dthw=="
    /// `TPMT_PUBLIC` of a signing key that can leave its TPM.
    static let movableKey =
        "ACMACwAEAGAAAAAQABgACwADABAAIFnSWCvjSjmBb8OpHDdydHBKQPNtw26BsnAc4hH2hN1EACANZRtGwZiqOC2Y7H1uMGi7"
        + "0Pp2dv+laV25NCuv5q2/eQ=="
    /// `TPMS_ATTEST` about the creation of the key, by the restricted key.
    static let creationStatement =
        "/1RDR4AaACIAC7ZzZBRayVxp70e2HLcCXNYmayKCxP2RHiLvSrN7olHlABAAESIzRFVmd4iZqrvM3e7/AAAAAAAAAQvFMcdB"
        + "h9iIUAEYbd7itw7IzgAiAAsXal32DkAOsUvE8nxyh7rPsKA6b2jEVG46oOiYlyDp4AAg5QWy12WcMnaMp9whZeIMlx19afrK"
        + "grWIBB6SaUpPqEc="
    /// Its signature, `r ‖ s`.
    static let creationSignature =
        "brVMM7dMxuShTS2u+jDIvVBg1C+QRsJ5Y036lB6CD4Yb+WroXHSGARaoCG6iW9e9gHzevr4xCdagx0ulDtw3aQ=="
    /// `TPMS_ATTEST` about the same, by the unrestricted key.
    static let byUnrestrictedStatement =
        "/1RDR4AaACIAC8m9ERq2G8NJCAUZXiFXti8ujVlbWkgyJHK17MEEXtHcABAAESIzRFVmd4iZqrvM3e7/AAAAAAAAAR4xOPr4"
        + "0QTXhAGVdXl+LkZv7QAiAAsXal32DkAOsUvE8nxyh7rPsKA6b2jEVG46oOiYlyDp4AAg5QWy12WcMnaMp9whZeIMlx19afrK"
        + "grWIBB6SaUpPqEc="
    /// Its signature, `r ‖ s`.
    static let byUnrestrictedSignature =
        "XyZDRhTfE8MwnTerN6djc6fohmdWUpG04pFjuc/vD45TW2njLS+DI5mXMPK9xcAZJnh+j//dfbOfFuhPF8JNtg=="
    /// `TPMS_ATTEST` about the creation of the movable key, by the restricted key.
    static let movableStatement =
        "/1RDR4AaACIAC7ZzZBRayVxp70e2HLcCXNYmayKCxP2RHiLvSrN7olHlABAAESIzRFVmd4iZqrvM3e7/AAAAAAAAAS7FMcdB"
        + "h9iIUAEYbd7itw7IzgAiAAvEOKn2em2HDi1zlWRLTVG30Jg4eEogxUgEWkUc600jjAAg5QWy12WcMnaMp9whZeIMlx19afrK"
        + "grWIBB6SaUpPqEc="
    /// Its signature, `r ‖ s`.
    static let movableSignature =
        "omRU0nRt/bPEmhUv9kiry6GDe5bqxJCR+u0fxRz09BIXCDDNataN4GfNWDBVAXe/yPFxrE7AHOmLH561QlmthA=="
    /// `TPMS_ATTEST` about the key by `TPM2_Certify`, by the restricted key.
    static let certifyStatement =
        "/1RDR4AXACIAC7ZzZBRayVxp70e2HLcCXNYmayKCxP2RHiLvSrN7olHlAAQA/1WqAAAAAAAAAUDFMcdBh9iIUAEYbd7itw7I"
        + "zgAiAAsXal32DkAOsUvE8nxyh7rPsKA6b2jEVG46oOiYlyDp4AAiAAt3zA3P0sl1uHwd4Vaff+2vmNoU4+n8M90EYK5ngRDd"
        + "Cw=="
    /// Its signature, `r ‖ s`.
    static let certifySignature =
        "4TAtrwjHeXQ4Mx4mAA5W987mSYOIfVEGLYU/FWQREKu/S+adUHo+v4BdxFSPJoTPUf29ECEXicJ3EnEtxYvMYg=="
}
