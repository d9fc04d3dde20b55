/// The record of ``WireRecordTests``: a line for each operation with the number of commands (of the
/// keystore, and of the broker) and a digest of their comparable bytes.
enum WireRecord {
    static let plain = """
        create none fixedScheme: 7 055251e4d0b2
        sign none fixedScheme: 4 f39a92bfd299
        create revocable none fixedScheme: 8 2ae6738b1370
        sign revocable none fixedScheme: 5 91f0df8ee518
        rename none fixedScheme: 0 e3b0c44298fc
        change PIN none fixedScheme: 0 e3b0c44298fc
        attest creation none fixedScheme: 12 5fb87448a49d
        rename revocable none fixedScheme: 8 e042fdf218d5
        change PIN revocable none fixedScheme: 0 e3b0c44298fc
        attest creation revocable none fixedScheme: 12 7cbe7cc3589f
        delete none fixedScheme: 3 7a2e41ce7539
        create none webAuthn: 3 5fe29a47972a
        sign none webAuthn: 4 1530c42b55c7
        create revocable none webAuthn: 8 4ccc2bc85eb9
        sign revocable none webAuthn: 5 c92f8c0791fb
        seal none: 3 ae266e9a6d0c
        unseal none: 4 20b19ffcd33d
        seal revocably none: 6 0d1b71cd7220
        unseal revocably none: 2 9c49b622a300
        change PIN revocably none: 0 e3b0c44298fc
        revoke none: 3 ff04f5031777
        MAC key none: 4 2792aa9f2495
        MAC and sign none: 8 8bc7c3e431e0
        create pin fixedScheme: 3 0cc205fcf96f
        sign pin fixedScheme: 5 534e66b4bc20
        create revocable pin fixedScheme: 15 245309236287
        sign revocable pin fixedScheme: 9 62a08fdb36d7
        rename pin fixedScheme: 8 ab54a5821ee0
        change PIN pin fixedScheme: 8 ab54a5821ee0
        attest creation pin fixedScheme: 12 3e95528f3bc8
        rename revocable pin fixedScheme: 7 dc525cc0e64d
        change PIN revocable pin fixedScheme: 9 ce0b5567f0ae
        attest creation revocable pin fixedScheme: 13 6c3d76747e5f
        delete pin fixedScheme: 3 ff04f5031777
        create pin webAuthn: 3 e95d906d61d2
        sign pin webAuthn: 5 1ab7db9ced10
        create revocable pin webAuthn: 15 69e7dff97cc8
        sign revocable pin webAuthn: 9 17e9d9f095bf
        seal pin: 3 9fc801917d52
        unseal pin: 5 843425fa07e4
        seal revocably pin: 6 c5b7e9f78eb5
        unseal revocably pin: 4 96e38bd9a490
        change PIN revocably pin: 16 88b4d7071440
        revoke pin: 3 6eef24404c71
        MAC key pin: 4 f6fad09ebcfa
        MAC and sign pin: 10 a236c42aeaee
        """

    static let broker = """
        start the broker: 0+13 a00b39f926f3
        create pin 0: 9+15 dd37f5696556
        sign pin 0: 8+0 5c97d91286ba
        sign pin 0 again: 8+0 5c97d91286ba
        attest pin 0: 10+0 fc60f1da9643
        seal pin 0: 6+16 6993d4cbf402
        unseal pin 0: 7+0 27ba6592f974
        MAC key pin 0: 7+3 7acaf1a773d8
        MAC and sign pin 0: 15+0 43f1094e8eef
        change PIN pin 0: 6+0 5b8f7acb16c2
        create user-presence 0: 6+3 c11c6f196974
        sign user-presence 0: 8+16 5f044dd3758b
        sign user-presence 0 again: 8+16 5f044dd3758b
        sign user-presence 0 by PIN: 8+0 08272fc210a6
        attest user-presence 0: 8+0 42d07fa7f421
        seal user-presence 0: 6+3 a4f6acc48173
        unseal user-presence 0: 8+16 8607fb5142b0
        MAC key user-presence 0: 7+3 7acaf1a773d8
        MAC and sign user-presence 0: 16+20 a11109ab3a07
        change PIN user-presence 0: 6+0 5b8f7acb16c2
        create biometry-any 0: 3+2 e26897fb8f82
        sign biometry-any 0: 8+6 ca55227bbdb2
        sign biometry-any 0 again: 8+6 ca55227bbdb2
        attest biometry-any 0: 8+0 02f2e72c0084
        seal biometry-any 0: 3+2 13390327ed91
        unseal biometry-any 0: 7+6 e5a44bc9abdb
        MAC key biometry-any 0: 4+2 76a1102fdde6
        MAC and sign biometry-any 0: 15+10 d2a570a48397
        change PIN biometry-any 0: 0+0 e3b0c44298fc
        create biometry-current-set 0: 3+12 f608ef35a8fc
        sign biometry-current-set 0: 9+9 9c52947eacf4
        sign biometry-current-set 0 again: 9+9 9c52947eacf4
        attest biometry-current-set 0: 9+0 7509fd742b8a
        seal biometry-current-set 0: 3+4 e0461add0983
        unseal biometry-current-set 0: 8+9 9542af5cb640
        MAC key biometry-current-set 0: 4+4 45b70d4242d9
        MAC and sign biometry-current-set 0: 17+13 530da65f5154
        change PIN biometry-current-set 0: 0+0 e3b0c44298fc
        create biometry-any 60: 3+2 e26897fb8f82
        sign biometry-any 60: 9+6 d6f105840b14
        sign biometry-any 60 again: 7+0 9ce45041759a
        attest biometry-any 60: 9+0 7d6c967fc4c5
        seal biometry-any 60: 3+2 13390327ed91
        unseal biometry-any 60: 8+6 b326693aba8e
        MAC key biometry-any 60: 4+2 76a1102fdde6
        MAC and sign biometry-any 60: 13+0 6edab85ddfda
        change PIN biometry-any 60: 0+0 e3b0c44298fc
        create user-presence 60: 6+3 c11c6f196974
        sign user-presence 60: 9+16 4ee59fc3cc19
        sign user-presence 60 again: 7+0 1e0a89718430
        sign user-presence 60 by PIN: 7+0 1e0a89718430
        attest user-presence 60: 9+0 85a05f6ac81b
        seal user-presence 60: 6+3 a4f6acc48173
        unseal user-presence 60: 9+16 0328c0bab0e3
        MAC key user-presence 60: 7+3 7acaf1a773d8
        MAC and sign user-presence 60: 14+0 2df6d308f1f1
        change PIN user-presence 60: 6+0 5b8f7acb16c2
        """

    static let sharedBroker = """
        start the broker: 0+13 a00b39f926f3
        create pin 0: 9+15 dd37f5696556
        sign pin 0: 8+0 5c97d91286ba
        sign pin 0 again: 8+0 5c97d91286ba
        attest pin 0: 10+0 fc60f1da9643
        seal pin 0: 6+16 6993d4cbf402
        unseal pin 0: 7+0 27ba6592f974
        MAC key pin 0: 7+3 7acaf1a773d8
        MAC and sign pin 0: 15+0 43f1094e8eef
        change PIN pin 0: 6+0 5b8f7acb16c2
        create user-presence 0: 6+3 c11c6f196974
        sign user-presence 0: 6+16 0f4c00d5df23
        sign user-presence 0 again: 6+16 0f4c00d5df23
        sign user-presence 0 by PIN: 8+0 08272fc210a6
        attest user-presence 0: 8+0 42d07fa7f421
        seal user-presence 0: 6+3 a4f6acc48173
        unseal user-presence 0: 6+16 4fa6320dd7da
        MAC key user-presence 0: 7+3 7acaf1a773d8
        MAC and sign user-presence 0: 12+59 d64bc6ff5b27
        change PIN user-presence 0: 6+0 5b8f7acb16c2
        create biometry-any 0: 3+2 e26897fb8f82
        sign biometry-any 0: 6+6 c470c66a2beb
        sign biometry-any 0 again: 6+6 c470c66a2beb
        attest biometry-any 0: 8+0 02f2e72c0084
        seal biometry-any 0: 3+2 13390327ed91
        unseal biometry-any 0: 5+6 523907f53681
        MAC key biometry-any 0: 4+2 76a1102fdde6
        MAC and sign biometry-any 0: 11+10 923197dbd03a
        change PIN biometry-any 0: 0+0 e3b0c44298fc
        create biometry-current-set 0: 3+12 f608ef35a8fc
        sign biometry-current-set 0: 7+9 73b0c2a50e6e
        sign biometry-current-set 0 again: 7+9 73b0c2a50e6e
        attest biometry-current-set 0: 9+0 7509fd742b8a
        seal biometry-current-set 0: 3+4 e0461add0983
        unseal biometry-current-set 0: 6+9 7dd7138f49a6
        MAC key biometry-current-set 0: 4+4 45b70d4242d9
        MAC and sign biometry-current-set 0: 13+13 f3dd94a3440f
        change PIN biometry-current-set 0: 0+0 e3b0c44298fc
        create biometry-any 60: 3+2 e26897fb8f82
        sign biometry-any 60: 7+6 fcd4afccfc31
        sign biometry-any 60 again: 7+0 9ce45041759a
        attest biometry-any 60: 9+0 7d6c967fc4c5
        seal biometry-any 60: 3+2 13390327ed91
        unseal biometry-any 60: 6+6 d307402ef69a
        MAC key biometry-any 60: 4+2 76a1102fdde6
        MAC and sign biometry-any 60: 13+0 6edab85ddfda
        change PIN biometry-any 60: 0+0 e3b0c44298fc
        create user-presence 60: 6+3 c11c6f196974
        sign user-presence 60: 7+16 18978312bb8e
        sign user-presence 60 again: 7+0 1e0a89718430
        sign user-presence 60 by PIN: 7+0 1e0a89718430
        attest user-presence 60: 9+0 85a05f6ac81b
        seal user-presence 60: 6+3 a4f6acc48173
        unseal user-presence 60: 7+16 77399e6f88cf
        MAC key user-presence 60: 7+3 7acaf1a773d8
        MAC and sign user-presence 60: 14+0 2df6d308f1f1
        change PIN user-presence 60: 6+0 5b8f7acb16c2
        """

    static let enrolment = """
        create pin: 7 2544fb93144f
        identity: 7 af5c21783dcd
        activate: 4 561817086c08
        attest: 7 0d6454e61595
        """
}
