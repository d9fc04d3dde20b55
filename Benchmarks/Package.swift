// swift-tools-version: 6.2

import PackageDescription

/// Compares the time and memory of Latchkey with the bare hardware. A separate package, so that
/// apps and tests of Latchkey do not build it. Run it with `scripts/bench`.
let package = Package(
    name: "latchkey-benchmarks",
    dependencies: [
        .package(name: "latchkey", path: ".."),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    ],
    targets: [
        .systemLibrary(name: "CPKCS11Headers", pkgConfig: "p11-kit-1"),
        .systemLibrary(name: "CTPMHeaders", pkgConfig: "tss2-esys"),
        .target(
            name: "CFloor",
            dependencies: ["CPKCS11Headers", "CTPMHeaders"],
            linkerSettings: [
                .linkedLibrary("crypto"), .linkedLibrary("tss2-esys"), .linkedLibrary("tss2-mu"),
                .linkedLibrary("tss2-tctildr"),
            ]
        ),
        .executableTarget(name: "meter"),
        .target(name: "CAllocations"),
        .target(
            name: "Authorities",
            dependencies: [
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .executableTarget(
            name: "attestation-cost",
            dependencies: [
                "Authorities", "CAllocations",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyRelyingParty", package: "latchkey"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: [
                .swiftLanguageMode(.v6), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
        .executableTarget(
            name: "bench",
            dependencies: [
                "Authorities",
                "CFloor",
                "attestation-cost",
                "meter",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyCredentials", package: "latchkey"),
                .product(name: "LatchkeyOAuth", package: "latchkey"),
                .product(name: "LatchkeyLogin", package: "latchkey"),
                .product(name: "LatchkeyPKCS11", package: "latchkey"),
                .product(name: "LatchkeyRelyingParty", package: "latchkey"),
                .product(name: "LatchkeySimulators", package: "latchkey"),
                .product(name: "LatchkeyTPM", package: "latchkey"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "TPM2", package: "latchkey"),
                .product(name: "X509", package: "swift-certificates"),
                // Programs that are measured as processes, built from the same sources.
                .product(name: "latchkey", package: "latchkey"),
                .product(name: "latchkey-agent", package: "latchkey"),
                .product(name: "latchkey-card", package: "latchkey"),
                .product(name: "latchkey-identity", package: "latchkey"),
                .product(name: "latchkey-passkeys", package: "latchkey"),
                .product(name: "latchkey-presenced", package: "latchkey"),
                .product(name: "latchkey-uhid", package: "latchkey"),
            ],
            swiftSettings: [
                .swiftLanguageMode(.v6), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
    ]
)
