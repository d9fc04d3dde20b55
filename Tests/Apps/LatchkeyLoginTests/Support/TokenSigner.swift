import Foundation
import JWTKit
import Testing

/// Signs ID tokens as a server does, and checks requests of devices: with JWTKit, which Latchkey
/// does not use.
struct TokenSigner {
    enum Algorithm {
        case es256
        case rs256
    }

    let algorithm: Algorithm
    let keyID = "server-key"
    private let ecKey = ES256PrivateKey()
    private let rsaKey: Insecure.RSA.PrivateKey?
    private let rsaJWK: String

    init(_ algorithm: Algorithm = .es256) throws {
        self.algorithm = algorithm
        guard algorithm == .rs256 else {
            rsaKey = nil
            rsaJWK = ""
            return
        }
        let key = try Insecure.RSA.PrivateKey(pem: Self.rsaPEM)
        rsaKey = key
        let (modulus, exponent) = try key.publicKey.getKeyPrimitives()
        rsaJWK = """
            {"kty":"RSA","alg":"RS256","use":"sig","kid":"\(keyID)","n":"\(Self.base64URL(modulus))",\
            "e":"\(Self.base64URL(exponent))"}
            """
    }

    /// The key set as the server publishes it, and another key of an unknown kind.
    var keySet: String {
        get throws {
            let parameters = try #require(ecKey.publicKey.parameters)
            let ecJWK = """
                {"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"\(keyID)",\
                "x":"\(Self.unpadded(parameters.x))","y":"\(Self.unpadded(parameters.y))"}
                """
            return
                #"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"},\#(rsaKey == nil ? ecJWK : rsaJWK)]}"#
        }
    }

    func sign(_ claims: IDClaims) async throws -> String {
        let keys = JWTKeyCollection()
        let kid = JWKIdentifier(string: keyID)
        if let rsaKey {
            await keys.add(rsa: rsaKey, digestAlgorithm: .sha256, kid: kid)
        } else {
            await keys.add(ecdsa: ecKey, kid: kid)
        }
        return try await keys.sign(claims, kid: kid)
    }

    /// Whether the device's key made the request.
    static func isSigned(_ jwt: String, x: String, y: String) async -> Bool {
        let keys = JWTKeyCollection()
        guard let key = try? ES256PublicKey(parameters: (x: x, y: y)) else { return false }
        await keys.add(ecdsa: key)
        return (try? await keys.verify(jwt, as: DeviceRequest.self)) != nil
    }

    /// Made for these tests; it protects nothing.
    private static let rsaPEM = """
        -----BEGIN RSA PRIVATE KEY-----
        MIIEogIBAAKCAQEAnVtBOsAH3ovQOPucgKaU4N3IcSAxVmQSEos5YgQ1vIswqb3b
        p2MaPpIm3+UVMJE9TwGR01mbjVNIwaoeGA0nle49CxWXpTB1dckidJ7J8rTQn/wJ
        BUPQG0A7dqo3NzLKUN5+z2/F8Nn5eZnNtLp3XnPXGeiiZiZDEHUec7hKwsDtuuMG
        8o5MSK58ghfcozpsWKIkGxpngJTZgiabkKCv6dmn5vGQo9ucdQ4KgMUkv0++BJH2
        NIDONEtFxqc5dUIPIaxe02goc5oh+SdOaMqh3nD8flCx6VCRUyh5gOmFuNEZSIKi
        ULzjExAO1QnMC+Do83LJ6XswhiXrqiduftuw8QIDAQABAoIBABFfZ1K4q8W+suTv
        poYvngU7hysyLjBHCRXCCDpRk6s2xM8gtnUDBH0+/oq+jHnZtyaXWkW2wW03cjNr
        eDoYjbPIYzXrktv6fyVbaPHuLAafPt9C4K4ToBC6JTaDMWhnM539CowVX4mpTxlF
        SUg4RACKEof6Pp+/fqz8+Tk2cg6ROPxNnevQ5aA02Gn+9RWaiZSyuu5yMcKAbCbh
        Hj35zDqLhBjDWR+2tMvWqBY/wSu58zYJa6fePUdUoznliRbsTnNK2enp73uxSfDd
        9Md3IPfDeaujASMcJQ7Ns9+PBGFshr7RavCOZRhGRONaAjtWYpTaRjFwMLi5r7GH
        G8ce7JcCgYEAyc9fzLOWlg8Hq2Meyu7Y98w5ny7y2gwENZdN6SM2apvTwUGHHKpV
        JAqtjUuFV0IQUTTmQsM8GG2frWfwnFqihYl7xTzINR/2l8azu/MyVO1aNLaAsckc
        Q1RrV/8wAKdt/YPJ5TtlWIy3gk45Ez673bs3YDB9AmOy0HAfZTkVMQsCgYEAx5wY
        mT8iHj3zkmnhGHpZ8qx86W8YdIpDzgckTVcbHa757+f4Oqe2ZMuNg6INPvUGthqI
        UCKaKv2+c4l61nnWYfbS2bUO0iJ8Htzr2FJ2+VKDS+zMGVAnR0rMiHlldNkHQMzf
        B4+/rhgxDtAzCwPJZFYUxnLxQq0hD3j7PDIPm3MCgYAlEahhK2OvsJcSDiTr1a+Y
        5LR43uDQ2IA1b9NpzYQDVRgyWVz+EPOOqT9zwrl9a68fm33oKYByZEB+U6dIsQVF
        ThmkAyQrTfG3s1H0ZhmKrAZzxEojXfOJEoqdIUyp8hcsB/cf2iclesOCdefZ9x3+
        /pKPYpizxahkzROXPkL8PQKBgD6RqIhI6Onv42zOsZdZqt5NwS3u/Axz1sM7K97u
        YfqRAZl47i98qMi5oZdUcbB9X+gvMvFjl03Iki1nN9EJCfFVTEyf25B07NFD0M3T
        M6X9fliLVoLMxDMtuCVDYFEbQpHGZlbZcW0h+ia5jnZybmt8LDD0kLmkyUsvUhlR
        W+EPAoGACUz79oUu3RJcV82KxJikgqQWXbSK/P3cCeZIxootUhfio3ThzVzT41Tu
        rXosBNL5Ux95HT+V3I5mkPmjxBVZZL9zxFO/28O8wqu9wOmBHy2cwwF4rcaLytA6
        kazglzgosqRqfEU8sycl0MY+nO+ts4geMrmJPpXe4kP4qVvLH4U=
        -----END RSA PRIVATE KEY-----
        """

    private static func base64URL(_ data: some DataProtocol) -> String {
        unpadded(Data(data).base64EncodedString())
    }

    private static func unpadded(_ base64: String) -> String {
        base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

/// The claims of an ID token.
struct IDClaims: JWTPayload {
    var iss: String
    var sub: String
    var aud: [String]
    var exp: Int
    var iat: Int
    var nbf: Int? = nil
    var nonce: String?
    var at_hash: String?
    var azp: String?
    var auth_time: Int? = nil
    var canReauthenticate: Bool? = nil

    private enum CodingKeys: String, CodingKey {
        case iss, sub, aud, exp, iat, nbf, nonce, at_hash, azp, auth_time
        case canReauthenticate = "https://authgear.com/claims/user/can_reauthenticate"
    }

    func verify(using algorithm: some JWTAlgorithm) throws {}
}

/// The claims of a device's request.
struct DeviceRequest: JWTPayload {
    let iat: Int
    let exp: Int
    let challenge: String
    let action: String

    func verify(using algorithm: some JWTAlgorithm) throws {}
}
