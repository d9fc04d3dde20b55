// swift-tools-version: 6.2

import PackageDescription

/// Programs that are built as an app of yours is: from Latchkey's products, and nothing else of it.
let package = Package(
    name: "examples",
    dependencies: [.package(name: "latchkey", path: "..", traits: ["Network"])],
    targets: [
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
