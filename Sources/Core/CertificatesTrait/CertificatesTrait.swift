#if !(Certificates || Testing || Programs)
    #error(
        """
        LatchkeyPKCS11, LatchkeyCertificates and VirtualSmartCard need traits: ["Certificates"] in \
        the .package(…) of Latchkey in Package.swift
        """)
#endif
