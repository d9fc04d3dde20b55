// swift-tools-version: 6.2

import PackageDescription

/// Compares the time and memory of Latchkey with the bare hardware. A separate package, so that
/// apps and tests of Latchkey do not build it. Run it with `scripts/bench`.
let package = Package(
    name: "latchkey-benchmarks",
    dependencies: [
        .package(name: "latchkey", path: ".."),
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
        .executableTarget(
            name: "bench",
            dependencies: [
                "CFloor",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]
                + [
                    "Latchkey", "LatchkeyCredentials", "LatchkeyLogin", "LatchkeyOAuth",
                    "LatchkeyPKCS11", "LatchkeySimulators", "LatchkeyTPM", "_LatchkeyInternals",
                    // Programs that are measured as processes.
                    "latchkey", "latchkey-agent", "latchkey-identity", "latchkey-passkeys",
                    "latchkey-presenced",
                ].map { .product(name: $0, package: "latchkey") },
            swiftSettings: [
                .swiftLanguageMode(.v6), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
    ]
)
