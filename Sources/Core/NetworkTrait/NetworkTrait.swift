#if !(Network || Testing || Programs)
    #error(
        """
        LatchkeyOAuth, LatchkeyLogin, LatchkeyCredentials and LatchkeyLocker need traits: ["Network"] in \
        the .package(…) of Latchkey in Package.swift
        """)
#endif
