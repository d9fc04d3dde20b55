/// The record of ``WireRecordTests``: a line for each operation with the number of commands (of the
/// keystore, and of the broker) and a digest of their comparable bytes.
enum WireRecord {
    static let plain = """
        create none fixedScheme: 7 4a6d783d2965
        sign none fixedScheme: 4 f39a92bfd299
        create revocable none fixedScheme: 8 da759e2a8586
        sign revocable none fixedScheme: 5 91f0df8ee518
        rename none fixedScheme: 0 e3b0c44298fc
        change PIN none fixedScheme: 0 e3b0c44298fc
        attest creation none fixedScheme: 12 41be47effa38
        rename revocable none fixedScheme: 8 e042fdf218d5
        change PIN revocable none fixedScheme: 0 e3b0c44298fc
        attest creation revocable none fixedScheme: 12 7cbe7cc3589f
        delete none fixedScheme: 3 7a2e41ce7539
        create none webAuthn: 3 031a3a850f5f
        sign none webAuthn: 4 1530c42b55c7
        create revocable none webAuthn: 8 a3e1495538e2
        sign revocable none webAuthn: 5 c92f8c0791fb
        seal none: 3 fc361e5f8be9
        unseal none: 4 20b19ffcd33d
        seal revocably none: 6 0d1b71cd7220
        unseal revocably none: 2 9c49b622a300
        change PIN revocably none: 0 e3b0c44298fc
        revoke none: 3 ff04f5031777
        MAC key none: 4 1112014ff1fc
        MAC and sign none: 8 8bc7c3e431e0
        create pin fixedScheme: 3 a3182bafaec7
        sign pin fixedScheme: 5 0e01774b5dd6
        create revocable pin fixedScheme: 15 f15ae8295c44
        sign revocable pin fixedScheme: 8 268fe9d36106
        rename pin fixedScheme: 8 a7f6708a8b85
        change PIN pin fixedScheme: 8 a7f6708a8b85
        attest creation pin fixedScheme: 12 4ba23b9d5689
        rename revocable pin fixedScheme: 7 dc525cc0e64d
        change PIN revocable pin fixedScheme: 9 ce0b5567f0ae
        attest creation revocable pin fixedScheme: 10 56fc687694dd
        delete pin fixedScheme: 3 ff04f5031777
        create pin webAuthn: 3 645e9e6698b3
        sign pin webAuthn: 5 8435d4828a27
        create revocable pin webAuthn: 15 53a8e59ab31f
        sign revocable pin webAuthn: 8 db05f213c0fd
        seal pin: 3 7287a92e8bf7
        unseal pin: 5 843425fa07e4
        seal revocably pin: 6 c5b7e9f78eb5
        unseal revocably pin: 4 96e38bd9a490
        change PIN revocably pin: 16 88b4d7071440
        revoke pin: 3 6eef24404c71
        MAC key pin: 4 0013d18084a0
        MAC and sign pin: 10 e7d603ac81bc
        """

    static let broker = """
        start the broker: 0+13 46733c05193d
        create pin 0: 10+15 12edd5f57aab
        sign pin 0: 7+0 0aab63ede344
        sign pin 0 again: 7+0 0aab63ede344
        attest pin 0: 7+0 e096d7650949
        seal pin 0: 7+18 2ee9402592ee
        unseal pin 0: 7+0 3c6bc54987e5
        MAC key pin 0: 8+3 e473c3a2511a
        MAC and sign pin 0: 14+0 75ee895ed002
        change PIN pin 0: 6+0 5b8f7acb16c2
        create user-presence 0: 7+3 3d84b01fbf24
        sign user-presence 0: 8+16 3e50280e3949
        sign user-presence 0 again: 8+16 3e50280e3949
        sign user-presence 0 by PIN: 8+0 10c8f86904eb
        attest user-presence 0: 5+0 eecbf72c1e4b
        seal user-presence 0: 7+3 a41c459d9118
        unseal user-presence 0: 8+16 d5c5d368303a
        MAC key user-presence 0: 8+3 e473c3a2511a
        MAC and sign user-presence 0: 16+20 4d55fcc49bdd
        change PIN user-presence 0: 6+0 5b8f7acb16c2
        create biometry-any 0: 3+2 88d095d45b8c
        sign biometry-any 0: 7+6 4c057058a118
        sign biometry-any 0 again: 7+6 4c057058a118
        attest biometry-any 0: 5+0 eecbf72c1e4b
        seal biometry-any 0: 3+2 9d6e39dbe19e
        unseal biometry-any 0: 7+6 893bcc542d96
        MAC key biometry-any 0: 4+2 e50609780aac
        MAC and sign biometry-any 0: 14+10 f31b2807cbcd
        change PIN biometry-any 0: 0+0 e3b0c44298fc
        create biometry-current-set 0: 4+12 8d2bdfbb92c7
        sign biometry-current-set 0: 8+9 66ceb1339e70
        sign biometry-current-set 0 again: 8+9 66ceb1339e70
        attest biometry-current-set 0: 6+0 ff5730d3dc0d
        seal biometry-current-set 0: 4+4 93da773dd911
        unseal biometry-current-set 0: 8+9 5619b9d7d9c6
        MAC key biometry-current-set 0: 5+4 06714ac3020a
        MAC and sign biometry-current-set 0: 16+13 4ca8a91e254e
        change PIN biometry-current-set 0: 0+0 e3b0c44298fc
        create biometry-any 60: 3+2 88d095d45b8c
        sign biometry-any 60: 8+6 6cb73716facd
        sign biometry-any 60 again: 6+0 32aff19ce473
        attest biometry-any 60: 6+0 712601bc7ade
        seal biometry-any 60: 3+2 9d6e39dbe19e
        unseal biometry-any 60: 8+6 971ece7a36bd
        MAC key biometry-any 60: 4+2 e50609780aac
        MAC and sign biometry-any 60: 12+0 c62c2d75be6a
        change PIN biometry-any 60: 0+0 e3b0c44298fc
        create user-presence 60: 7+3 3d84b01fbf24
        sign user-presence 60: 9+16 cbdf819cbea9
        sign user-presence 60 again: 7+0 eb159b8f0ce2
        sign user-presence 60 by PIN: 7+0 eb159b8f0ce2
        attest user-presence 60: 6+0 712601bc7ade
        seal user-presence 60: 7+3 a41c459d9118
        unseal user-presence 60: 9+16 f335e6e8c9a3
        MAC key user-presence 60: 8+3 e473c3a2511a
        MAC and sign user-presence 60: 14+0 6a34e87a2c66
        change PIN user-presence 60: 6+0 5b8f7acb16c2
        """

    static let sharedBroker = """
        start the broker: 0+13 46733c05193d
        create pin 0: 10+15 12edd5f57aab
        sign pin 0: 7+0 0aab63ede344
        sign pin 0 again: 7+0 0aab63ede344
        attest pin 0: 7+0 e096d7650949
        seal pin 0: 7+18 2ee9402592ee
        unseal pin 0: 7+0 3c6bc54987e5
        MAC key pin 0: 8+3 e473c3a2511a
        MAC and sign pin 0: 14+0 75ee895ed002
        change PIN pin 0: 6+0 5b8f7acb16c2
        create user-presence 0: 7+3 3d84b01fbf24
        sign user-presence 0: 6+16 dada68cfa726
        sign user-presence 0 again: 6+16 dada68cfa726
        sign user-presence 0 by PIN: 8+0 10c8f86904eb
        attest user-presence 0: 5+0 eecbf72c1e4b
        seal user-presence 0: 7+3 a41c459d9118
        unseal user-presence 0: 6+16 3f1410b425a6
        MAC key user-presence 0: 8+3 e473c3a2511a
        MAC and sign user-presence 0: 12+59 f6fc617ed1b2
        change PIN user-presence 0: 6+0 5b8f7acb16c2
        create biometry-any 0: 3+2 88d095d45b8c
        sign biometry-any 0: 5+6 a75f17d9c5d0
        sign biometry-any 0 again: 5+6 a75f17d9c5d0
        attest biometry-any 0: 5+0 eecbf72c1e4b
        seal biometry-any 0: 3+2 9d6e39dbe19e
        unseal biometry-any 0: 5+6 4998b5a55e78
        MAC key biometry-any 0: 4+2 e50609780aac
        MAC and sign biometry-any 0: 10+10 5bb7abb47032
        change PIN biometry-any 0: 0+0 e3b0c44298fc
        create biometry-current-set 0: 4+12 8d2bdfbb92c7
        sign biometry-current-set 0: 6+9 a88784d9ed42
        sign biometry-current-set 0 again: 6+9 a88784d9ed42
        attest biometry-current-set 0: 6+0 ff5730d3dc0d
        seal biometry-current-set 0: 4+4 93da773dd911
        unseal biometry-current-set 0: 6+9 03544db33ebb
        MAC key biometry-current-set 0: 5+4 06714ac3020a
        MAC and sign biometry-current-set 0: 12+13 8a1b598255ab
        change PIN biometry-current-set 0: 0+0 e3b0c44298fc
        create biometry-any 60: 3+2 88d095d45b8c
        sign biometry-any 60: 6+6 e8e2ee923ac4
        sign biometry-any 60 again: 6+0 32aff19ce473
        attest biometry-any 60: 6+0 712601bc7ade
        seal biometry-any 60: 3+2 9d6e39dbe19e
        unseal biometry-any 60: 6+6 4ae418e884ec
        MAC key biometry-any 60: 4+2 e50609780aac
        MAC and sign biometry-any 60: 12+0 c62c2d75be6a
        change PIN biometry-any 60: 0+0 e3b0c44298fc
        create user-presence 60: 7+3 3d84b01fbf24
        sign user-presence 60: 7+16 b94497520094
        sign user-presence 60 again: 7+0 eb159b8f0ce2
        sign user-presence 60 by PIN: 7+0 eb159b8f0ce2
        attest user-presence 60: 6+0 712601bc7ade
        seal user-presence 60: 7+3 a41c459d9118
        unseal user-presence 60: 7+16 9481ef86c346
        MAC key user-presence 60: 8+3 e473c3a2511a
        MAC and sign user-presence 60: 14+0 6a34e87a2c66
        change PIN user-presence 60: 6+0 5b8f7acb16c2
        """

    static let enrolment = """
        create pin: 7 605c67e256f8
        identity: 11 69da9ed0b9c5
        activate: 4 561817086c08
        attest: 5 21bfd8033be7
        """
}
