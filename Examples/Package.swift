// swift-tools-version: 6.2

import PackageDescription

/// The products that each program imports. The names of Latchkey's begin with `Latchkey`.
func program(_ name: String, _ products: String) -> Target {
    let packages = [
        "Crypto": "swift-crypto", "Hummingbird": "hummingbird", "NIOCore": "swift-nio",
        "NIOPosix": "swift-nio", "NIOSSL": "swift-nio-ssl", "X509": "swift-certificates",
    ]
    return .executableTarget(
        name: name,
        dependencies: products.split(separator: " ").map {
            .product(name: String($0), package: packages[String($0)] ?? "latchkey")
        })
}

/// Programs that are built as an app of yours is: from Latchkey's products, and nothing else of it.
let package = Package(
    name: "examples",
    dependencies: [
        // Your app names the traits of its products, as the README lists them, for example
        // `traits: ["Network"]`. Name one trait: `Testing` includes `Network` and `Certificates`. Two
        // traits can make SwiftPM compile everything again. Without `traits`, all products can be
        // used.
        .package(name: "latchkey", path: ".."),
        .package(url: "https://github.com/apple/swift-certificates.git", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.37.6"),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.1"),
    ],
    targets: [
        program("credentials", "Latchkey LatchkeyCredentials LatchkeyPresence LatchkeyTPM"),
        program(
            "device-server", "Crypto Hummingbird Latchkey LatchkeyRelyingParty LatchkeySQLite"),
        program("greeting", "Latchkey LatchkeyPresence LatchkeyTPM"),
        program("locker", "Latchkey LatchkeyLocker LatchkeyPresence LatchkeyTPM"),
        program("login", "Latchkey LatchkeyLogin LatchkeyPresence LatchkeyTPM"),
        program(
            "mutual-tls",
            "Latchkey LatchkeyCertificates LatchkeyPresence LatchkeyTPM NIOCore NIOPosix NIOSSL X509"
        ),
        program(
            "notes", "Latchkey LatchkeyLogin LatchkeyPresence LatchkeyTPM LatchkeyVault"),
        program("vault", "Latchkey LatchkeyPresence LatchkeyTPM LatchkeyVault"),
    ],
    swiftLanguageModes: [.v6]
)
