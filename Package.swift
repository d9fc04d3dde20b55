// swift-tools-version: 6.2

import PackageDescription

/// Swift 6 mode with the upcoming features that packages such as swift-subprocess use.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// The settings of an app from `swift package init`.
let example: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let asn1: Target.Dependency = .product(name: "SwiftASN1", package: "swift-asn1")
let certificates: Target.Dependency = .product(
    name: "X509", package: "swift-certificates", condition: .when(traits: ["Certificates"]))
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let httpTypes: Target.Dependency = .product(
    name: "HTTPTypes", package: "swift-http-types", condition: .when(traits: ["Network"]))
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Programs"]))
let subprocess: Target.Dependency = .product(
    name: "Subprocess", package: "swift-subprocess", condition: .when(traits: ["Network"]))
let system: Target.Dependency = .product(
    name: "SystemPackage", package: "swift-system", condition: .when(traits: ["Network"]))
let arguments: Target.Dependency = .product(
    name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Programs"]))

let package = Package(
    name: "latchkey",
    products: [
        .library(name: "TPM2", targets: ["TPM2", "TPM2TCTI"]),
        .library(name: "Latchkey", targets: ["Latchkey"]),
        .library(name: "LatchkeyTPM", targets: ["LatchkeyTPM"]),
        .library(name: "LatchkeyPKCS11", targets: ["LatchkeyPKCS11"]),
        .library(name: "LatchkeyCertificates", targets: ["LatchkeyCertificates"]),
        .library(name: "LatchkeyPresence", targets: ["LatchkeyPresence"]),
        .library(name: "LatchkeyHTTP", targets: ["LatchkeyHTTP"]),
        .library(name: "LatchkeyLogin", targets: ["LatchkeyLogin"]),
        .library(name: "LatchkeyVault", targets: ["LatchkeyVault"]),
        .library(name: "LatchkeyCredentials", targets: ["LatchkeyCredentials"]),
        .library(name: "LatchkeyCredentialsFoundation", targets: ["LatchkeyCredentialsFoundation"]),
        .library(name: "LatchkeyLocker", targets: ["LatchkeyLocker"]),
        .library(name: "LatchkeyPasskeys", targets: ["LatchkeyPasskeys"]),
        .library(name: "LatchkeyRelyingParty", targets: ["LatchkeyRelyingParty"]),
        .library(name: "LatchkeySSH", targets: ["LatchkeySSH"]),
        .library(name: "LatchkeyPostgreSQL", targets: ["LatchkeyPostgreSQL"]),
        .library(name: "LatchkeySimulators", targets: ["LatchkeySimulators"]),
        .library(name: "LatchkeyTesting", targets: ["LatchkeyTesting"]),
        .library(name: "VirtualSmartCard", targets: ["VirtualSmartCard"]),
        .executable(name: "latchkey", targets: ["latchkey"]),
        .executable(name: "latchkey-identity", targets: ["latchkey-identity"]),
        .executable(name: "latchkey-card", targets: ["latchkey-card"]),
        .executable(name: "latchkey-presenced", targets: ["latchkey-presenced"]),
        .executable(name: "latchkey-agent", targets: ["latchkey-agent"]),
        .executable(name: "latchkey-passkeys", targets: ["latchkey-passkeys"]),
        .executable(name: "latchkey-uhid", targets: ["latchkey-uhid"]),
    ],
    // A trait names the packages of some products, so that an app fetches only those that it needs: `traits: []` for a TPM.
    traits: [
        .trait(
            name: "Certificates",
            description: "For LatchkeyCertificates, LatchkeyPKCS11, VirtualSmartCard and EndorsementAuthority."),
        .trait(
            name: "Network", description: "For LatchkeyLogin, LatchkeyCredentials, LatchkeyLocker and LatchkeyHTTP."),
        .trait(
            name: "Testing", description: "For LatchkeyTesting and LatchkeySimulators.",
            enabledTraits: ["Certificates", "Network"]),
        .trait(
            name: "Programs", description: "For the command-line tool and the services.", enabledTraits: ["Testing"]),
        .default(enabledTraits: ["Programs"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/hummingbird-project/swift-mustache", from: "2.1.1"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: [
        .systemLibrary(
            name: "CTSS2",
            pkgConfig: "tss2-tctildr",
            providers: [.apt(["libtss2-dev"])]
        ),
        .systemLibrary(
            name: "CPKCS11",
            pkgConfig: "p11-kit-1",
            providers: [.apt(["libp11-kit-dev"])]
        ),
        .systemLibrary(
            name: "COpenSSL",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"])]
        ),
        .systemLibrary(
            name: "CPostgreSQL",
            pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"])]
        ),
        // Headers of libraries that are loaded at their first use.
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CLibCrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CLibP11", providers: [.apt(["libp11-dev", "libssl-dev"])]),
        .systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]),
        // Headers of this package, without a library.
        .systemLibrary(name: "CEnvironment"),
        .systemLibrary(name: "CProcess"),
        .systemLibrary(name: "CSocketDiagnosis"),
        .target(name: "TPM2", dependencies: [crypto, cryptoExtras], swiftSettings: strict),
        .target(name: "UNIXSockets", swiftSettings: strict),
        // Separate, so that LatchkeyRelyingParty can read TPM structures on a server without tpm2-tss.
        .target(name: "TPM2TCTI", dependencies: ["TPM2", "CEnvironment", "CTSS2"], swiftSettings: strict),
        .target(
            name: "Latchkey", dependencies: ["CProcess", crypto, grdb], swiftSettings: strict),
        .target(
            name: "LatchkeyTPM", dependencies: ["Latchkey", "TPM2", "TPM2TCTI", crypto, asn1], swiftSettings: strict),
        .target(
            name: "LatchkeyPKCS11",
            dependencies: [
                "Latchkey", "CEnvironment", "CPKCS11", "CLibP11", "CProcess", "UNIXSockets", crypto, cryptoExtras,
                asn1, certificates,
            ],
            swiftSettings: strict
        ),
        .target(
            name: "LatchkeyCertificates", dependencies: ["Latchkey", asn1, certificates], swiftSettings: strict),
        .target(name: "LatchkeyPresence", dependencies: ["Latchkey", "CProcess", "CSystemd"], swiftSettings: strict),
        .target(
            name: "LatchkeyHTTP",
            dependencies: ["CCurl", "CEnvironment", "CSocketDiagnosis", "Latchkey", httpTypes],
            swiftSettings: strict
        ),
        .target(name: "LatchkeyJOSE", dependencies: ["Latchkey", crypto, cryptoExtras], swiftSettings: strict),
        .target(
            name: "LatchkeyOAuth",
            dependencies: [
                "Latchkey", "LatchkeyHTTP", "LatchkeyJOSE", crypto, httpTypes, subprocess,
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["Network"])),
                system,
            ],
            swiftSettings: strict
        ),
        .target(
            name: "LatchkeyLogin",
            dependencies: [
                "Latchkey", "LatchkeyHTTP", "LatchkeyJOSE", "LatchkeyOAuth", httpTypes,
            ],
            swiftSettings: strict
        ),
        .target(name: "LatchkeyVault", dependencies: ["Latchkey"], swiftSettings: strict),
        .target(
            name: "LatchkeyCredentials",
            dependencies: ["Latchkey", "LatchkeyHTTP", "LatchkeyJOSE", "LatchkeyOAuth", httpTypes],
            swiftSettings: strict),
        .target(
            name: "LatchkeyCredentialsFoundation", dependencies: ["LatchkeyCredentials", httpTypes],
            swiftSettings: strict),
        .target(
            name: "LatchkeyLocker",
            dependencies: ["Latchkey", "LatchkeyHTTP", "LatchkeyJOSE", "LatchkeyOAuth", crypto, httpTypes],
            swiftSettings: strict),
        .target(
            name: "LatchkeyPasskeys", dependencies: ["Latchkey", crypto, cryptoExtras], swiftSettings: strict),
        .target(
            name: "VirtualSmartCard", dependencies: ["COpenSSL", "UNIXSockets", asn1, certificates, crypto],
            swiftSettings: strict),
        .target(
            name: "LatchkeyRelyingParty",
            dependencies: [
                .target(name: "CLibCrypto", condition: .when(traits: ["Certificates"])), "Latchkey", "LatchkeyJOSE",
                "TPM2", asn1, certificates, crypto, cryptoExtras, grdb,
            ],
            swiftSettings: strict),
        .target(name: "LatchkeySSH", dependencies: ["Latchkey", crypto, cryptoExtras], swiftSettings: strict),
        .target(
            name: "LatchkeySettings",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyPKCS11", "LatchkeyPresence", "LatchkeyTPM", "TPM2TCTI",
            ],
            swiftSettings: strict),
        // Separate, so that only servers with PostgreSQL need libpq.
        .target(
            name: "LatchkeyPostgreSQL", dependencies: ["CPostgreSQL", "Latchkey", "LatchkeyRelyingParty"],
            swiftSettings: strict),
        .target(name: "LatchkeyLogging", dependencies: ["Latchkey", "UNIXSockets", logging], swiftSettings: strict),
        .target(
            name: "LatchkeySimulators",
            dependencies: [
                "Latchkey", "CEnvironment", "UNIXSockets", subprocess, system,
            ],
            swiftSettings: strict),
        .target(
            name: "LatchkeyTesting",
            dependencies: [
                "Latchkey", "LatchkeyHTTP", "LatchkeySimulators", "VirtualSmartCard", asn1, certificates, crypto,
                httpTypes,
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "latchkey",
            dependencies: [
                "Latchkey", "LatchkeyTPM", "LatchkeyPKCS11", "LatchkeyCertificates", "LatchkeyPresence",
                "LatchkeyHTTP", "LatchkeyJOSE", "LatchkeyLogin", "LatchkeyVault", "LatchkeyCredentials",
                "LatchkeyLocker", "LatchkeyOAuth", "LatchkeyPasskeys", "LatchkeyRelyingParty",
                "LatchkeyLogging", "LatchkeySSH", "LatchkeySettings", "LatchkeySimulators", "TPM2", "TPM2TCTI",
                "UNIXSockets", arguments, asn1, certificates,
                crypto, httpTypes, logging, subprocess,
                system,
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "latchkey-card",
            dependencies: [
                "Latchkey", "VirtualSmartCard", "LatchkeySimulators", arguments,
                .product(
                    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "latchkey-presenced",
            dependencies: [
                "Latchkey", "LatchkeyLogging", "LatchkeyTPM", "LatchkeyPresence", arguments, crypto, logging,
                .product(
                    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])),
            ],
            swiftSettings: strict
        ),
        .executableTarget(name: "latchkey-uhid", swiftSettings: strict),
        .executableTarget(
            name: "latchkey-agent",
            dependencies: [
                "Latchkey", "LatchkeyLogging", "LatchkeyPKCS11", "LatchkeyPresence", "LatchkeySSH", "LatchkeySettings",
                "LatchkeyTPM", "UNIXSockets", arguments, logging,
                .product(
                    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "latchkey-passkeys",
            dependencies: [
                "Latchkey", "LatchkeyLogging", "LatchkeyPKCS11", "LatchkeyPasskeys", "LatchkeyPresence",
                "LatchkeySettings", "UNIXSockets", arguments, logging,
                .product(
                    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "latchkey-identity",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyLogging", "LatchkeyPostgreSQL", "LatchkeyRelyingParty", arguments,
                crypto, cryptoExtras, grdb, logging,
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Programs"])),
                .product(name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Programs"])),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: .when(traits: ["Programs"])),
                .product(name: "JWTKit", package: "jwt-kit", condition: .when(traits: ["Programs"])),
                .product(name: "Mustache", package: "swift-mustache", condition: .when(traits: ["Programs"])),
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])
                ),
                .product(
                    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])),
                system,
            ],
            swiftSettings: strict
        ),
        .systemLibrary(
            name: "CESAPI",
            path: "Tests/CESAPI",
            pkgConfig: "tss2-esys",
            providers: [.apt(["libtss2-dev"])]
        ),
        .systemLibrary(name: "CUHID", path: "Tests/CUHID"),
        .target(
            name: "LatchkeyTestSupport",
            dependencies: [
                "Latchkey", "LatchkeyHTTP", "LatchkeyJOSE", "LatchkeySimulators", "LatchkeyTesting", "TPM2", "TPM2TCTI",
                "UNIXSockets", "VirtualSmartCard", crypto, httpTypes, subprocess,
                system,
            ],
            path: "Tests/LatchkeyTestSupport",
            swiftSettings: strict
        ),
        .target(name: "RawDatabase", dependencies: [grdb], path: "Tests/RawDatabase", swiftSettings: strict),
        .testTarget(
            name: "TPM2Tests",
            dependencies: [
                "TPM2", "TPM2TCTI", "CTSS2", "CESAPI", "LatchkeyTesting", "LatchkeySimulators", crypto,
            ],
            resources: [.copy("Fixtures")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeySimulatorsTests",
            dependencies: [
                "Latchkey", "LatchkeySimulators", "LatchkeyTestSupport", "LatchkeyTesting", crypto, httpTypes,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyTests",
            dependencies: [
                "Latchkey", "LatchkeyTPM", "LatchkeySimulators", "RawDatabase", "LatchkeyTestSupport",
                "LatchkeyTesting", "TPM2", "TPM2TCTI", crypto, grdb,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyTPMTests",
            dependencies: [
                "Latchkey", "LatchkeyRelyingParty", "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting",
                "LatchkeySimulators", "TPM2", "TPM2TCTI", asn1, crypto,
            ],
            exclude: ["Oracles"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyPKCS11Tests",
            dependencies: [
                "COpenSSL", "Latchkey", "LatchkeyCertificates", "LatchkeyPKCS11", "LatchkeyTestSupport",
                "LatchkeyTesting", "LatchkeySimulators", "LatchkeyVault", "VirtualSmartCard", asn1, certificates,
                crypto,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "VirtualSmartCardTests",
            dependencies: [
                "VirtualSmartCard", "latchkey-card", "LatchkeyTestSupport", "LatchkeyTesting", "LatchkeySimulators",
                crypto,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyPasskeysTests",
            dependencies: [
                "Latchkey", "LatchkeyPasskeys", "LatchkeyPKCS11", "LatchkeyTPM", "LatchkeyTestSupport",
                "LatchkeyTesting", "LatchkeySimulators", "TPM2", "TPM2TCTI", "UNIXSockets", crypto, cryptoExtras,
            ],
            exclude: ["Clients"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyVaultTests",
            dependencies: [
                "Latchkey", "LatchkeyVault", "LatchkeyPKCS11", "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting",
                "LatchkeySimulators", "RawDatabase", grdb,
            ],
            swiftSettings: strict
        ),
        // Ported iOS apps, with an app's settings; their code may cause warnings.
        .testTarget(
            name: "PortingTests",
            dependencies: [
                "Latchkey", "LatchkeyCredentials", "LatchkeyHTTP", "LatchkeyLocker", "LatchkeyLogin", "LatchkeyOAuth",
                "LatchkeyPKCS11", "LatchkeySimulators", "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting",
                "LatchkeyVault",
                "latchkey-identity", httpTypes,
            ],
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
        .testTarget(
            name: "LatchkeyCredentialsTests",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyCredentials", "LatchkeyCredentialsFoundation", "LatchkeyHTTP",
                "LatchkeyOAuth", "LatchkeyPKCS11", "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting",
                "LatchkeySimulators", "RawDatabase", "latchkey-identity", crypto, cryptoExtras, grdb, httpTypes,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PresenceBrokerTests",
            dependencies: [
                "Latchkey", "latchkey-presenced", "LatchkeyPresence", "LatchkeyTPM", "LatchkeyTestSupport",
                "LatchkeyTesting", "LatchkeySimulators", "LatchkeyVault", "TPM2", "TPM2TCTI",
                "UNIXSockets",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "PasskeyRelayTests", dependencies: ["CUHID", "latchkey-uhid", "LatchkeySimulators", "UNIXSockets"],
            swiftSettings: strict),
        .testTarget(
            name: "PasskeyServiceTests",
            dependencies: [
                "latchkey", "latchkey-passkeys", "Latchkey", "LatchkeyPasskeys", "LatchkeySimulators",
                "LatchkeyTestSupport", "LatchkeyTesting", "UNIXSockets", crypto, logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "LatchkeyCertificatesTests",
            dependencies: [
                "Latchkey", "LatchkeyCertificates", "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting",
                "LatchkeySimulators", asn1, certificates,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyPresenceTests",
            dependencies: [
                "Latchkey", "LatchkeyPresence", "LatchkeyTestSupport", "LatchkeyTesting", "LatchkeySimulators",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeySSHTests",
            dependencies: [
                "Latchkey", "LatchkeySSH", "LatchkeyTPM", "LatchkeySimulators", "LatchkeyTestSupport",
                "LatchkeyTesting",
                "RawDatabase", crypto, cryptoExtras, grdb,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyLoggingTests",
            dependencies: ["LatchkeyLogging", "LatchkeySimulators", "UNIXSockets", logging],
            swiftSettings: strict),
        .testTarget(
            name: "LatchkeyHTTPTests",
            dependencies: [
                "Latchkey", "LatchkeyHTTP", "LatchkeyTestSupport", "LatchkeyTesting", "LatchkeySimulators", httpTypes,
                subprocess,
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["Network"])),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyJOSETests", dependencies: ["Latchkey", "LatchkeyJOSE", crypto], swiftSettings: strict),
        .testTarget(
            name: "LatchkeyLoginTests",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyHTTP", "LatchkeyLogin", "LatchkeyOAuth", "LatchkeyPKCS11",
                "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting", "LatchkeySimulators", "RawDatabase",
                "VirtualSmartCard", "latchkey-identity", crypto, grdb, httpTypes,
                .product(name: "JWTKit", package: "jwt-kit", condition: .when(traits: ["Programs"])),
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Network"])),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyLockerTests",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyHTTP", "LatchkeyLocker", "LatchkeyOAuth", "LatchkeyPKCS11",
                "LatchkeyTPM", "LatchkeyTestSupport", "LatchkeyTesting", "LatchkeySimulators", "RawDatabase",
                "latchkey-identity", grdb, httpTypes,
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyRelyingPartyTests",
            dependencies: [
                "Latchkey", "LatchkeyJOSE", "LatchkeyPostgreSQL", "LatchkeyRelyingParty", "LatchkeySimulators",
                "LatchkeyTestSupport", "LatchkeyTesting", "TPM2", asn1, certificates, crypto, cryptoExtras, grdb,
            ],
            exclude: ["Fixtures"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "LatchkeyIdentityTests",
            dependencies: [
                "latchkey-identity", "LatchkeyHTTP", "LatchkeyJOSE", "Latchkey", "LatchkeyPostgreSQL",
                "LatchkeyRelyingParty", "LatchkeySimulators", "LatchkeyTestSupport", "LatchkeyTesting", "RawDatabase",
                "TPM2", asn1,
                certificates, crypto, cryptoExtras, grdb, httpTypes, logging,
                .product(name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Programs"])),
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(name: "NIOEmbedded", package: "swift-nio", condition: .when(traits: ["Network"])),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Programs"])
                ),
            ],
            swiftSettings: strict
        ),
        // The programs of the package Examples/, so that the tests build and run them, with an app's settings and access.
        .executableTarget(
            name: "greeting",
            dependencies: ["Latchkey", "LatchkeyPresence", "LatchkeyTPM"],
            path: "Examples/Sources/greeting",
            packageAccess: false,
            swiftSettings: example
        ),
        .executableTarget(
            name: "notes",
            dependencies: ["Latchkey", "LatchkeyLogin", "LatchkeyPresence", "LatchkeyTPM", "LatchkeyVault"],
            path: "Examples/Sources/notes",
            packageAccess: false,
            swiftSettings: example
        ),
        .testTarget(
            name: "DocumentationTests",
            dependencies: [
                "Latchkey", "LatchkeyCertificates", "LatchkeyCredentials", "LatchkeyHTTP", "LatchkeyLocker",
                "LatchkeyLogin", "LatchkeyPKCS11", "LatchkeyPostgreSQL", "LatchkeyPresence", "LatchkeyRelyingParty",
                "LatchkeySimulators", "LatchkeyTPM", "LatchkeyTesting", "LatchkeyVault", "TPM2", "TPM2TCTI",
                certificates, httpTypes, subprocess,
            ],
            packageAccess: false,
            swiftSettings: example
        ),
        // The same directory is also a package that runs the parsers with libFuzzer; see scripts/fuzz.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "Latchkey", "LatchkeyCertificates", "LatchkeyCredentials", "LatchkeyHTTP", "LatchkeyJOSE",
                "LatchkeyLocker",
                "LatchkeyLogin", "LatchkeyOAuth", "LatchkeyPKCS11", "LatchkeyPresence", "LatchkeyRelyingParty",
                "LatchkeyPasskeys", "LatchkeySSH", "LatchkeyTPM", "TPM2",
                "VirtualSmartCard", asn1, certificates, crypto, grdb, httpTypes,
            ],
            exclude: ["Package.swift", "CLibFuzzer", "Driver", "Corpus"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                "greeting", "LatchkeyJOSE", "latchkey", "latchkey-agent", "latchkey-identity", "latchkey-passkeys",
                "latchkey-presenced", "notes", "Latchkey", "LatchkeySSH", "LatchkeyTPM", "LatchkeyTestSupport",
                "LatchkeyTesting", "LatchkeySimulators", "LatchkeyVault",
                "RawDatabase", "TPM2", "TPM2TCTI", "UNIXSockets", "VirtualSmartCard", crypto, grdb, subprocess, system,
            ],
            exclude: ["Golden", "Stores"],
            swiftSettings: strict
        ),
    ]
)
