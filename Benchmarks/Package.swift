// swift-tools-version: 6.2

import PackageDescription

/// What Latchkey costs above the bare hardware, measured side by side. A package of its own, so that nobody who uses or
/// tests Latchkey builds it. Run it with `scripts/bench`.
let package = Package(
    name: "latchkey-benchmarks",
    dependencies: [.package(name: "latchkey", path: "..")],
    targets: [
        .systemLibrary(name: "CPKCS11Headers", pkgConfig: "p11-kit-1"),
        .target(name: "CFloor", dependencies: ["CPKCS11Headers"], linkerSettings: [.linkedLibrary("crypto")]),
        .executableTarget(
            name: "bench",
            dependencies: [
                "CFloor",
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyPKCS11", package: "latchkey"),
                .product(name: "LatchkeySimulators", package: "latchkey"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .enableUpcomingFeature("NonisolatedNonsendingByDefault")]
        ),
    ]
)
