// swift-tools-version: 6.2

import PackageDescription

// MARK: - Kinds of targets

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
let app: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

/// A system library of `Sources/C`: a module map and the names of its Debian packages. Without
/// `pkgConfig`, only the headers.
func system(_ name: String, pkgConfig: String? = nil, apt: String..., path: String? = nil) -> Target
{
    .systemLibrary(
        name: name, path: path ?? "Sources/C/\(name)", pkgConfig: pkgConfig,
        providers: apt.isEmpty ? nil : [.apt(apt)])
}

func library(_ room: String, _ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Sources/\(room)/\(name)",
        swiftSettings: strict)
}

func program(_ room: String, _ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, path: "Sources/\(room)/\(name)",
        swiftSettings: strict)
}

func tests(
    _ room: String, _ name: String, _ dependencies: [Target.Dependency], exclude: [String] = [],
    resources: [Resource]? = nil, packageAccess: Bool = true, settings: [SwiftSetting] = strict
) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(room)/\(name)", exclude: exclude,
        resources: resources, packageAccess: packageAccess, swiftSettings: settings)
}

/// A library that only tests of this package use.
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Tests/Testing/\(name)", swiftSettings: strict
    )
}

// MARK: - Packages of others

/// A product of another package, with traits only if one of these is enabled.
func product(_ name: String, _ package: String, traits: Set<String>? = nil) -> Target.Dependency {
    guard let traits else { return .product(name: name, package: package) }
    return .product(name: name, package: package, condition: .when(traits: traits))
}

// No trait enables another: before Swift 6.4, SwiftPM passes several enabled traits to the compiler
// in a random order, and a new order compiles all modules again (swift-package-manager#10525).
let forPrograms: Set = ["Programs"]
let forNetwork: Set = ["Network", "Testing", "Programs"]
let forCertificates: Set = ["Certificates", "Testing", "Programs"]

let crypto = product("Crypto", "swift-crypto")
let cryptoExtras = product("CryptoExtras", "swift-crypto")
let asn1 = product("SwiftASN1", "swift-asn1")
let grdb = product("GRDB", "GRDB.swift")
let certificates = product("X509", "swift-certificates", traits: forCertificates)
let httpTypes = product("HTTPTypes", "swift-http-types", traits: forNetwork)
let subprocess = product("Subprocess", "swift-subprocess", traits: forNetwork)
let systemPackage = product("SystemPackage", "swift-system", traits: forNetwork)
let nioCore = product("NIOCore", "swift-nio", traits: forPrograms)
let nioPosix = product("NIOPosix", "swift-nio", traits: forPrograms)
let arguments = product("ArgumentParser", "swift-argument-parser", traits: forPrograms)
let logging = product("Logging", "swift-log", traits: forPrograms)
let signals = product("UnixSignals", "swift-service-lifecycle", traits: forPrograms)
let jwtKit = product("JWTKit", "jwt-kit", traits: forPrograms)

// MARK: - Rooms

/// Module maps of C libraries, and headers for what Swift's Glibc module lacks.
let c: [Target] = [
    system("CTSS2", pkgConfig: "tss2-tctildr", apt: "libtss2-dev"),
    system("CPKCS11", pkgConfig: "p11-kit-1", apt: "libp11-kit-dev"),
    system("COpenSSL", pkgConfig: "libcrypto", apt: "libssl-dev"),
    system("CPostgreSQL", pkgConfig: "libpq", apt: "libpq-dev"),
    system("CCurl", pkgConfig: "libcurl", apt: "libcurl4-openssl-dev"),
    system("CSystemd", pkgConfig: "libsystemd", apt: "libsystemd-dev"),
    // The headers of libp11, which is loaded at its first use, and OpenSSL.
    system("CLibP11", pkgConfig: "libcrypto", apt: "libp11-dev", "libssl-dev"),
    system("CPlatform"),
    system("CESAPI", pkgConfig: "tss2-esys", apt: "libtss2-dev", path: "Tests/C/CESAPI"),
    system("CUHID", path: "Tests/C/CUHID"),
]

let core: [Target] = [
    library("Core", "LatchkeyPlatform", ["CPlatform"]),
    library("Core", "Latchkey", ["CPlatform", "LatchkeyPlatform", crypto, grdb]),
]

let hardware: [Target] = [
    library("Hardware", "TPM2", [crypto, cryptoExtras]),
    // Separate, so that servers read TPM structures without tpm2-tss.
    library("Hardware", "TPM2TCTI", ["CTSS2", "LatchkeyPlatform", "TPM2"]),
    library(
        "Hardware", "LatchkeyTPM",
        ["Latchkey", "LatchkeyPlatform", "TPM2", "TPM2TCTI", asn1, crypto]),
    library(
        "Hardware", "LatchkeyPKCS11",
        [
            "CPKCS11", "CLibP11", "CPlatform", "Latchkey", "LatchkeyPlatform", asn1, certificates,
            crypto,
            cryptoExtras,
        ]),
    library("Hardware", "LatchkeyCertificates", ["Latchkey", asn1, certificates]),
    library(
        "Hardware", "LatchkeyPresence", ["CPlatform", "CSystemd", "Latchkey", "LatchkeyPlatform"]),
]

let oauth: [Target.Dependency] = ["Latchkey", "LatchkeyJOSE", "LatchkeyOAuth", crypto, httpTypes]
let apps: [Target] = [
    library("Apps", "LatchkeyJOSE", ["Latchkey", crypto, cryptoExtras]),
    library(
        "Apps", "LatchkeyOAuth",
        [
            "CCurl", "Latchkey", "LatchkeyJOSE", "LatchkeyPlatform", crypto, httpTypes, subprocess,
            systemPackage,
        ]),
    library("Apps", "LatchkeyLogin", oauth),
    library("Apps", "LatchkeyVault", ["Latchkey"]),
    library("Apps", "LatchkeyCredentials", oauth),
    // Separate, because FoundationNetworking, which has URLRequest, adds 8 MB to each program that
    // links it.
    library("Apps", "LatchkeyCredentialsFoundation", ["LatchkeyCredentials", httpTypes]),
    library("Apps", "LatchkeyLocker", oauth),
]

let backends: [Target.Dependency] = [
    "Latchkey", "LatchkeyTPM", "LatchkeyPKCS11", "LatchkeyPresence",
]
let agents: [Target] = [
    library("Agents", "LatchkeySSH", ["Latchkey", crypto, cryptoExtras]),
    library("Agents", "LatchkeyPasskeys", ["Latchkey", crypto, cryptoExtras]),
    program(
        "Agents", "latchkey-agent",
        backends + [
            "LatchkeySSH", "LatchkeyServices", "LatchkeyPlatform", arguments, logging,
        ]),
    program(
        "Agents", "latchkey-passkeys",
        backends + [
            "LatchkeyPasskeys", "LatchkeyServices", "LatchkeyPlatform", arguments, logging,
        ]),
    program("Agents", "latchkey-uhid", ["LatchkeyPlatform"]),
]

let server: [Target] = [
    library(
        "Server", "LatchkeyRelyingParty",
        [
            .target(name: "COpenSSL", condition: .when(traits: forCertificates)), "Latchkey",
            "LatchkeyJOSE", "LatchkeyPlatform", "TPM2", asn1, certificates, crypto, cryptoExtras,
        ]),
    // Separate, so that a server needs only the client of its database.
    library("Server", "LatchkeySQLite", ["LatchkeyRelyingParty", grdb]),
    library(
        "Server", "LatchkeyPostgreSQL",
        ["CPostgreSQL", "Latchkey", "LatchkeyPlatform", "LatchkeyRelyingParty"]),
    program(
        "Server", "latchkey-identity",
        [
            "Latchkey", "LatchkeyJOSE", "LatchkeyPlatform", "LatchkeyPostgreSQL",
            "LatchkeyRelyingParty", "LatchkeySQLite",
            arguments, crypto, cryptoExtras, jwtKit, logging, nioCore, signals,
            product("Hummingbird", "hummingbird", traits: forPrograms),
            product("HummingbirdCore", "hummingbird", traits: forPrograms),
            product("ServiceLifecycle", "swift-service-lifecycle", traits: forPrograms),
        ]),
]

let programs: [Target] = [
    library(
        "Programs", "LatchkeyServices",
        backends + [
            "LatchkeyJOSE", "LatchkeyPlatform", "TPM2TCTI", arguments, logging, signals,
        ]),
    program(
        "Programs", "latchkey",
        backends + [
            "LatchkeyCertificates", "LatchkeyCredentials", "LatchkeyJOSE", "LatchkeyLocker",
            "LatchkeyLogin",
            "LatchkeyOAuth", "LatchkeyPasskeys", "LatchkeyPlatform", "LatchkeyRelyingParty",
            "LatchkeySSH",
            "LatchkeyServices", "LatchkeyVault", "TPM2", "TPM2TCTI", arguments, asn1,
            certificates, crypto, httpTypes, logging, systemPackage,
        ]),
    program(
        "Programs", "latchkey-presenced",
        [
            "Latchkey", "LatchkeyPresence", "LatchkeyServices", "LatchkeyTPM", arguments, crypto,
            logging,
        ]),
]

let testing: [Target] = [
    library(
        "Testing", "LatchkeySimulators",
        ["Latchkey", "LatchkeyPlatform", subprocess, systemPackage]),
    library(
        "Testing", "VirtualSmartCard", ["COpenSSL", "LatchkeyPlatform", asn1, certificates, crypto]),
    library(
        "Testing", "LatchkeyTesting",
        [
            "Latchkey", "LatchkeyOAuth", "LatchkeySimulators", "VirtualSmartCard", asn1,
            certificates, crypto,
            httpTypes,
        ]),
    program(
        "Testing", "latchkey-demo",
        [
            "Latchkey", "LatchkeyOAuth", "LatchkeySimulators", arguments, httpTypes, subprocess,
            systemPackage,
        ]),
    program(
        "Testing", "latchkey-card",
        ["Latchkey", "LatchkeySimulators", "VirtualSmartCard", arguments, signals]),
    support(
        "LatchkeyTestSupport",
        [
            "Latchkey", "LatchkeyJOSE", "LatchkeyOAuth", "LatchkeyPlatform", "LatchkeySimulators",
            "LatchkeyTesting", "TPM2", "TPM2TCTI", "VirtualSmartCard", crypto, httpTypes,
            subprocess,
            systemPackage,
        ]),
    support("RawDatabase", [grdb]),
]

/// What most tests import.
let world: [Target.Dependency] = [
    "Latchkey", "LatchkeyPlatform", "LatchkeySimulators", "LatchkeyTestSupport", "LatchkeyTesting",
    crypto,
]
let hardwareWorld = world + ["LatchkeyPKCS11", "LatchkeyTPM", "TPM2", "TPM2TCTI"]
let oauthWorld =
    hardwareWorld + [
        "LatchkeyJOSE", "LatchkeyOAuth", "RawDatabase", "latchkey-identity", grdb, httpTypes,
    ]

let suites: [Target] = [
    tests(
        "Core", "LatchkeyPlatformTests", ["LatchkeyPlatform", "LatchkeySimulators"]),
    tests("Core", "LatchkeyTests", hardwareWorld + ["RawDatabase", grdb]),
    tests(
        "Hardware", "TPM2Tests", hardwareWorld + ["CESAPI", "CTSS2"], resources: [.copy("Fixtures")]
    ),
    tests(
        "Hardware", "LatchkeyTPMTests", hardwareWorld + ["LatchkeyRelyingParty", asn1],
        exclude: ["Oracles"]),
    tests(
        "Hardware", "LatchkeyPKCS11Tests",
        hardwareWorld + [
            "COpenSSL", "LatchkeyCertificates", "LatchkeyVault", "VirtualSmartCard", asn1,
            certificates,
        ]),
    tests(
        "Hardware", "LatchkeyCertificatesTests",
        hardwareWorld + ["LatchkeyCertificates", asn1, certificates]),
    tests("Hardware", "LatchkeyPresenceTests", world + ["LatchkeyPresence"]),
    tests("Apps", "LatchkeyJOSETests", ["Latchkey", "LatchkeyJOSE", crypto]),
    tests(
        "Apps", "LatchkeyOAuthTests",
        world + ["LatchkeyOAuth", httpTypes, nioCore, nioPosix, subprocess]),
    tests("Apps", "LatchkeyVaultTests", hardwareWorld + ["LatchkeyVault", "RawDatabase", grdb]),
    tests(
        "Apps", "LatchkeyLoginTests",
        oauthWorld + ["LatchkeyLogin", "VirtualSmartCard", jwtKit]),
    tests(
        "Apps", "LatchkeyCredentialsTests",
        oauthWorld + ["LatchkeyCredentials", "LatchkeyCredentialsFoundation", cryptoExtras]),
    tests("Apps", "LatchkeyLockerTests", oauthWorld + ["LatchkeyLocker"]),
    // Ported iOS apps, with an app's settings; their code may cause warnings.
    tests(
        "Apps", "PortingTests",
        oauthWorld + ["LatchkeyCredentials", "LatchkeyLocker", "LatchkeyLogin", "LatchkeyVault"],
        settings: [.swiftLanguageMode(.v6)]),
    tests(
        "Agents", "LatchkeySSHTests",
        hardwareWorld + ["LatchkeySSH", "RawDatabase", cryptoExtras, grdb]),
    tests(
        "Agents", "LatchkeyPasskeysTests", hardwareWorld + ["LatchkeyPasskeys", cryptoExtras],
        exclude: ["Clients"]),
    tests(
        "Agents", "PasskeyRelayTests",
        ["CUHID", "LatchkeyPlatform", "LatchkeySimulators", "latchkey-uhid"]),
    tests(
        "Agents", "PasskeyServiceTests",
        world + ["LatchkeyPasskeys", "latchkey", "latchkey-passkeys", logging]),
    tests(
        "Server", "LatchkeyRelyingPartyTests",
        world + [
            "LatchkeyJOSE", "LatchkeyPostgreSQL", "LatchkeyRelyingParty", "LatchkeySQLite", "TPM2",
            "latchkey-identity", asn1, certificates, cryptoExtras,
        ],
        exclude: ["Fixtures"]),
    tests(
        "Server", "LatchkeyIdentityTests",
        world + [
            "LatchkeyJOSE", "LatchkeyOAuth", "LatchkeyPostgreSQL", "LatchkeyRelyingParty",
            "LatchkeySQLite", "TPM2", "latchkey-identity", asn1, certificates, cryptoExtras,
            httpTypes, logging, nioCore,
            product("Hummingbird", "hummingbird", traits: forPrograms),
            product("ServiceLifecycle", "swift-service-lifecycle", traits: forPrograms),
        ]),
    tests(
        "Programs", "LatchkeyServicesTests",
        ["LatchkeyPlatform", "LatchkeyServices", "LatchkeySimulators", logging]),
    tests(
        "Programs", "PresenceBrokerTests",
        hardwareWorld + ["LatchkeyPresence", "LatchkeyVault", "latchkey-presenced"]),
    tests(
        "Programs", "CommandTests",
        hardwareWorld + [
            "LatchkeyJOSE", "LatchkeySSH", "LatchkeyServices", "LatchkeyVault", "RawDatabase",
            "VirtualSmartCard",
            "greeting",
            "latchkey", "latchkey-agent", "latchkey-demo", "latchkey-identity",
            "latchkey-passkeys", "latchkey-presenced", "notes",
            grdb, subprocess, systemPackage,
        ],
        exclude: ["Golden"]),
    tests("Testing", "LatchkeySimulatorsTests", world + [httpTypes]),
    tests("Testing", "VirtualSmartCardTests", world + ["VirtualSmartCard", "latchkey-card"]),
    tests(
        "Testing", "DocumentationTests",
        [
            "Latchkey", "LatchkeyCertificates", "LatchkeyCredentials", "LatchkeyLocker",
            "LatchkeyLogin",
            "LatchkeyOAuth", "LatchkeyPKCS11", "LatchkeyPostgreSQL", "LatchkeyPresence",
            "LatchkeyRelyingParty",
            "LatchkeySimulators", "LatchkeyTPM", "LatchkeyTesting", "LatchkeyVault", "TPM2",
            "TPM2TCTI",
            certificates, httpTypes, subprocess,
        ],
        packageAccess: false, settings: app),
    // The same directory is also a package that runs the parsers with libFuzzer; see scripts/fuzz.
    tests(
        "Testing", "FuzzTests",
        [
            "Latchkey", "LatchkeyCertificates", "LatchkeyCredentials", "LatchkeyJOSE",
            "LatchkeyLocker",
            "LatchkeyLogin", "LatchkeyOAuth", "LatchkeyPKCS11", "LatchkeyPasskeys",
            "LatchkeyPresence",
            "LatchkeyRelyingParty", "LatchkeySSH", "LatchkeyTPM", "TPM2", "VirtualSmartCard", asn1,
            certificates,
            crypto, grdb, httpTypes,
        ],
        exclude: ["Package.swift", "CLibFuzzer", "Driver", "Corpus"]),
]

/// The programs of the package `Examples`, so that the tests build and run them, with an app's
/// settings and access.
let examples: [Target] = [
    ("greeting", ["Latchkey", "LatchkeyPresence", "LatchkeyTPM"]),
    ("notes", ["Latchkey", "LatchkeyLogin", "LatchkeyPresence", "LatchkeyTPM", "LatchkeyVault"]),
].map { (name: String, dependencies: [Target.Dependency]) in
    .executableTarget(
        name: name, dependencies: dependencies, path: "Examples/Sources/\(name)",
        packageAccess: false,
        swiftSettings: app)
}

// MARK: - Package

let libraries = [
    "Latchkey", "LatchkeyTPM", "LatchkeyPKCS11", "LatchkeyCertificates", "LatchkeyPresence",
    "LatchkeyOAuth",
    "LatchkeyLogin", "LatchkeyVault", "LatchkeyCredentials", "LatchkeyCredentialsFoundation",
    "LatchkeyLocker",
    "LatchkeyPasskeys", "LatchkeySSH", "LatchkeyRelyingParty", "LatchkeyPostgreSQL",
    "LatchkeySQLite", "LatchkeySimulators",
    "LatchkeyTesting", "VirtualSmartCard",
]
let executables = [
    "latchkey", "latchkey-agent", "latchkey-passkeys", "latchkey-uhid", "latchkey-presenced",
    "latchkey-identity", "latchkey-card", "latchkey-demo",
]

let package = Package(
    name: "latchkey",
    products: [.library(name: "TPM2", targets: ["TPM2", "TPM2TCTI"])]
        + libraries.map { .library(name: $0, targets: [$0]) }
        + executables.map { .executable(name: $0, targets: [$0]) },
    // A trait names the packages of some products, so that an app fetches only those that it needs:
    // `traits: []` for a TPM.
    traits: [
        .trait(
            name: "Certificates",
            description:
                "For LatchkeyCertificates, LatchkeyPKCS11, VirtualSmartCard and EndorsementAuthority."
        ),
        .trait(
            name: "Network",
            description: "For LatchkeyOAuth, LatchkeyLogin, LatchkeyCredentials and LatchkeyLocker."
        ),
        .trait(name: "Testing", description: "For LatchkeyTesting and LatchkeySimulators."),
        .trait(name: "Programs", description: "For the command-line tool and the services."),
        .default(enabledTraits: ["Programs"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1",
            traits: ["FullFoundation"]),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: c + core + hardware + apps + agents + server + programs + testing + suites + examples
)
