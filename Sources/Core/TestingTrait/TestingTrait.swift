#if !(Testing || Programs)
    #error(
        """
        LatchkeySimulators and LatchkeyTesting need traits: ["Testing"] in \
        the .package(…) of Latchkey in Package.swift
        """)
#endif
