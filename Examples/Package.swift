// swift-tools-version: 6.2

import PackageDescription

/// Programs that are built as an app of yours is: from Latchkey's products, and nothing else of it.
let package = Package(
    name: "examples",
    dependencies: [
        .package(name: "latchkey", path: "..", traits: ["Network"]),
        .package(url: "https://github.com/apple/swift-crypto.git", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.1"),
    ],
    targets: [
        .executableTarget(
            name: "device-server",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyRelyingParty", package: "latchkey"),
                .product(name: "LatchkeySQLite", package: "latchkey"),
            ]
        ),
        .executableTarget(
            name: "greeting",
            dependencies: [
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyPresence", package: "latchkey"),
                .product(name: "LatchkeyTPM", package: "latchkey"),
            ]
        ),
        .executableTarget(
            name: "notes",
            dependencies: [
                .product(name: "Latchkey", package: "latchkey"),
                .product(name: "LatchkeyLogin", package: "latchkey"),
                .product(name: "LatchkeyPresence", package: "latchkey"),
                .product(name: "LatchkeyTPM", package: "latchkey"),
                .product(name: "LatchkeyVault", package: "latchkey"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
