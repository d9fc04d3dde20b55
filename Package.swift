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

/// A system library of `Sources/C`: a module map and the names of its Debian packages.
func system(_ name: String, pkgConfig: String? = nil, apt: String..., path: String? = nil) -> Target
{
    .systemLibrary(
        name: name, path: path ?? "Sources/C/\(name)", pkgConfig: pkgConfig,
        providers: apt.isEmpty ? nil : [.apt(apt)])
}

/// Modules of this package and products of others, by their names, separated by spaces.
func dependencies(_ names: String) -> [Target.Dependency] {
    names.split(whereSeparator: \.isWhitespace).map {
        products[String($0)] ?? .byName(name: String($0))
    }
}

/// The names of modules or tests in a folder, each with its dependencies.
typealias Room = KeyValuePairs<String, String>

/// Libraries and programs. The names of programs are in lower case.
func modules(_ folder: String, _ room: Room) -> [Target] {
    room.map { (name, names) in
        let (dependencies, path) = (dependencies(names), "\(folder)/\(name)")
        return name == name.lowercased()
            ? .executableTarget(
                name: name, dependencies: dependencies, path: path, swiftSettings: strict)
            : .target(
                name: name, dependencies: dependencies, path: path, exclude: excluded[name] ?? [],
                swiftSettings: strict)
    }
}

func tests(_ folder: String, _ room: Room) -> [Target] {
    room.map {
        .testTarget(
            name: $0, dependencies: dependencies($1), path: "\(folder)/\($0)",
            exclude: excluded[$0] ?? [], resources: $0 == "TPM2Tests" ? [.copy("Fixtures")] : nil,
            packageAccess: $0 != "DocumentationTests", swiftSettings: settings[$0] ?? strict)
    }
}

/// Files of tests that are not compiled.
let excluded = [
    "CommandTests": ["Golden"], "LatchkeyPasskeysTests": ["Clients"],
    "LatchkeyRelyingPartyTests": ["Fixtures"], "LatchkeyTPMTests": ["Oracles"],
    "LatchkeyTestSupport": ["OpenID"],
    // Also a package that runs the parsers with libFuzzer; see scripts/fuzz.
    "FuzzTests": ["Package.swift", "CLibFuzzer", "Driver", "Corpus"],
]
/// Code of apps: ported iOS apps, which may cause warnings, and the documentation's code.
let settings = ["PortingTests": [.swiftLanguageMode(.v6)], "DocumentationTests": app]

// MARK: - Products of other packages

// No trait enables another: before Swift 6.4, SwiftPM passes several enabled traits to the compiler
// in a random order, and a new order compiles all modules again (swift-package-manager#10525).
let forPrograms: Set = ["Programs"]
let forNetwork: Set = ["Network", "Testing", "Programs"]
let forCertificates: Set = ["Certificates", "Testing", "Programs"]

/// The products by name, with the traits that need them.
let products: [String: Target.Dependency] = [
    "COpenSSL": .target(name: "COpenSSL", condition: .when(traits: forCertificates)),
    "Crypto": .product(name: "Crypto", package: "swift-crypto"),
    "CryptoExtras": .product(name: "CryptoExtras", package: "swift-crypto"),
    "SwiftASN1": .product(name: "SwiftASN1", package: "swift-asn1"),
    "GRDB": .product(name: "GRDB", package: "GRDB.swift"),
    "X509": product("X509", "swift-certificates", forCertificates),
    "HTTPTypes": product("HTTPTypes", "swift-http-types", forNetwork),
    "Subprocess": product("Subprocess", "swift-subprocess", forNetwork),
    "SystemPackage": product("SystemPackage", "swift-system", forNetwork),
    "NIOCore": product("NIOCore", "swift-nio", forPrograms),
    "NIOPosix": product("NIOPosix", "swift-nio", forPrograms),
    "NIOSSL": product("NIOSSL", "swift-nio-ssl", forPrograms),
    "ArgumentParser": product("ArgumentParser", "swift-argument-parser", forPrograms),
    "Logging": product("Logging", "swift-log", forPrograms),
    "UnixSignals": product("UnixSignals", "swift-service-lifecycle", forPrograms),
    "ServiceLifecycle": product("ServiceLifecycle", "swift-service-lifecycle", forPrograms),
    "Hummingbird": product("Hummingbird", "hummingbird", forPrograms),
    "HummingbirdCore": product("HummingbirdCore", "hummingbird", forPrograms),
    "JWTKit": product("JWTKit", "jwt-kit", forPrograms),
]

func product(_ name: String, _ package: String, _ traits: Set<String>) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: traits))
}

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

let core: Room = [
    "LatchkeyPlatform": "CPlatform",
    "Latchkey": "CPlatform LatchkeyPlatform Crypto GRDB",
    // They name a missing trait before any other module of an app is compiled.
    "CertificatesTrait": "", "NetworkTrait": "", "TestingTrait": "",
]
let hardware: Room = [
    "TPM2": "Crypto CryptoExtras",
    // Separate, so that servers read TPM structures without tpm2-tss.
    "TPM2TCTI": "CTSS2 LatchkeyPlatform TPM2",
    "LatchkeyTPM": "Latchkey LatchkeyPlatform TPM2 TPM2TCTI SwiftASN1 Crypto",
    "LatchkeyPKCS11": """
    CPKCS11 CLibP11 CPlatform CertificatesTrait Latchkey LatchkeyPlatform SwiftASN1 X509 Crypto
    CryptoExtras
    """,
    "LatchkeyCertificates": "CertificatesTrait Latchkey SwiftASN1 X509",
    "LatchkeyPresence": "CPlatform CSystemd Latchkey LatchkeyPlatform TPM2",
]
let oauth = "Latchkey LatchkeyJOSE LatchkeyOAuth Crypto HTTPTypes"
let apps: Room = [
    "LatchkeyJOSE": "Latchkey Crypto CryptoExtras",
    "LatchkeyOAuth": """
    CCurl NetworkTrait Latchkey LatchkeyJOSE LatchkeyPlatform Crypto HTTPTypes Subprocess
    SystemPackage
    """,
    "LatchkeyLogin": oauth,
    "LatchkeyVault": "Latchkey",
    "LatchkeyCredentials": oauth,
    // Separate, because FoundationNetworking, which has URLRequest, adds 8 MB to each program that
    // links it.
    "LatchkeyCredentialsFoundation": "LatchkeyCredentials HTTPTypes",
    "LatchkeyLocker": oauth,
]
let backends = "Latchkey LatchkeyTPM LatchkeyPKCS11 LatchkeyPresence"
let agents: Room = [
    "LatchkeySSH": "Latchkey LatchkeyPlatform Crypto CryptoExtras",
    "LatchkeyPasskeys": "Latchkey Crypto CryptoExtras",
    "latchkey-agent":
        backends + " LatchkeySSH LatchkeyServices LatchkeyPlatform ArgumentParser Logging",
    "latchkey-passkeys":
        backends + " LatchkeyPasskeys LatchkeyServices LatchkeyPlatform ArgumentParser Logging",
    "latchkey-uhid": "LatchkeyPlatform",
]
let server: Room = [
    "LatchkeyRelyingParty": """
    COpenSSL Latchkey LatchkeyJOSE LatchkeyPlatform TPM2 SwiftASN1 X509 Crypto CryptoExtras
    """,
    // Separate, so that a server needs only the client of its database.
    "LatchkeySQLite": "Latchkey LatchkeyRelyingParty GRDB",
    "LatchkeyPostgreSQL": "CPostgreSQL Latchkey LatchkeyPlatform LatchkeyRelyingParty",
    "latchkey-identity": """
    Latchkey LatchkeyJOSE LatchkeyPlatform LatchkeyPostgreSQL LatchkeyRelyingParty
    LatchkeySQLite ArgumentParser Crypto CryptoExtras Logging NIOCore UnixSignals
    Hummingbird HummingbirdCore ServiceLifecycle
    """,
]
let programs: Room = [
    "LatchkeyServices":
        backends + " LatchkeyJOSE LatchkeyPlatform TPM2TCTI ArgumentParser Logging UnixSignals",
    "LatchkeyDesktop": "CPlatform Latchkey LatchkeyPlatform Crypto CryptoExtras",
    "latchkey": """
    \(backends) LatchkeyCertificates LatchkeyCredentials LatchkeyDesktop LatchkeyJOSE LatchkeyLocker
    LatchkeyLogin LatchkeyOAuth LatchkeyPasskeys LatchkeyPlatform LatchkeyRelyingParty LatchkeySSH
    LatchkeyServices LatchkeyVault TPM2 TPM2TCTI ArgumentParser SwiftASN1 X509 Crypto
    HTTPTypes Logging SystemPackage
    """,
    "latchkey-presenced": """
    Latchkey LatchkeyDesktop LatchkeyPlatform LatchkeyPresence LatchkeyServices LatchkeyTPM
    ArgumentParser Crypto Logging
    """,
    "latchkey-keyring": "Latchkey LatchkeyDesktop LatchkeyPlatform",
]
let testing: Room = [
    "LatchkeySimulators": "TestingTrait Latchkey LatchkeyPlatform Subprocess SystemPackage",
    "VirtualSmartCard": "CertificatesTrait COpenSSL LatchkeyPlatform SwiftASN1 X509 Crypto",
    "LatchkeyTesting": """
    Latchkey LatchkeyOAuth LatchkeySimulators VirtualSmartCard SwiftASN1 X509 Crypto
    HTTPTypes
    """,
    "latchkey-demo": """
    Latchkey LatchkeyOAuth LatchkeySimulators ArgumentParser HTTPTypes Subprocess
    SystemPackage
    """,
    "latchkey-card": "Latchkey LatchkeySimulators VirtualSmartCard ArgumentParser UnixSignals",
]
let testSupport: Room = [
    "LatchkeyTestSupport": """
    Latchkey LatchkeyJOSE LatchkeyOAuth LatchkeyPlatform LatchkeySimulators LatchkeyTesting
    TPM2 TPM2TCTI VirtualSmartCard Crypto HTTPTypes Subprocess SystemPackage
    """,
    "RawDatabase": "GRDB",
]

// MARK: - Tests

/// What most tests import.
let world =
    "Latchkey LatchkeyPlatform LatchkeySimulators LatchkeyTestSupport LatchkeyTesting Crypto"
let hardwareWorld = world + " LatchkeyPKCS11 LatchkeyTPM TPM2 TPM2TCTI"
let oauthWorld =
    hardwareWorld + " LatchkeyJOSE LatchkeyOAuth RawDatabase latchkey-identity GRDB HTTPTypes"

let coreTests: Room = [
    "LatchkeyPlatformTests": "LatchkeyPlatform LatchkeySimulators",
    "LatchkeyTests": hardwareWorld + " RawDatabase GRDB",
]
let hardwareTests: Room = [
    "LatchkeyPKCS11Tests": """
    \(hardwareWorld) COpenSSL LatchkeyCertificates LatchkeyVault VirtualSmartCard SwiftASN1 X509
    """,
    "LatchkeyCertificatesTests": hardwareWorld + " LatchkeyCertificates SwiftASN1 X509",
    "LatchkeyPresenceTests": world + " LatchkeyPresence",
    "TPM2Tests": hardwareWorld + " CESAPI CTSS2",
    "LatchkeyTPMTests": hardwareWorld + " LatchkeyRelyingParty SwiftASN1",
]
let appTests: Room = [
    "LatchkeyJOSETests": "Latchkey LatchkeyJOSE Crypto",
    "LatchkeyOAuthTests": world + " LatchkeyOAuth HTTPTypes NIOCore NIOPosix Subprocess",
    "LatchkeyVaultTests": hardwareWorld + " LatchkeyVault RawDatabase GRDB",
    "LatchkeyLoginTests": oauthWorld + " LatchkeyLogin VirtualSmartCard JWTKit",
    "LatchkeyCredentialsTests":
        oauthWorld + " LatchkeyCredentials LatchkeyCredentialsFoundation CryptoExtras",
    "LatchkeyLockerTests": oauthWorld + " LatchkeyLocker",
    "PortingTests": oauthWorld + " LatchkeyCredentials LatchkeyLocker LatchkeyLogin LatchkeyVault",
]
let agentTests: Room = [
    "LatchkeySSHTests": hardwareWorld + " LatchkeySSH RawDatabase CryptoExtras GRDB",
    "PasskeyRelayTests": "CUHID LatchkeyPlatform LatchkeySimulators latchkey-uhid",
    "PasskeyServiceTests": world + " LatchkeyPasskeys latchkey latchkey-passkeys Logging",
    "LatchkeyPasskeysTests": hardwareWorld + " LatchkeyPasskeys CryptoExtras",
]
let serverTests: Room = [
    "LatchkeyIdentityTests": """
    \(world) LatchkeyJOSE LatchkeyOAuth LatchkeyPostgreSQL LatchkeyRelyingParty LatchkeySQLite TPM2
    latchkey-identity SwiftASN1 X509 CryptoExtras HTTPTypes Logging NIOCore Hummingbird
    ServiceLifecycle
    """,
    "LatchkeyRelyingPartyTests": """
    \(world) LatchkeyJOSE LatchkeyPostgreSQL LatchkeyRelyingParty LatchkeySQLite TPM2 latchkey-identity
    SwiftASN1 X509 CryptoExtras
    """,
]
let programTests: Room = [
    "LatchkeyDesktopTests": world + " LatchkeyDesktop latchkey latchkey-keyring",
    "LatchkeyServicesTests": "LatchkeyPlatform LatchkeyServices LatchkeySimulators Logging",
    "PresenceBrokerTests":
        hardwareWorld + " LatchkeyDesktop LatchkeyPresence LatchkeyVault latchkey-presenced",
    "CommandTests": """
    \(hardwareWorld) LatchkeyJOSE LatchkeyPasskeys LatchkeySSH LatchkeyServices LatchkeyVault RawDatabase
    VirtualSmartCard credentials device-server greeting latchkey latchkey-agent latchkey-demo latchkey-identity
    latchkey-passkeys latchkey-presenced locker login mutual-tls notes vault GRDB Subprocess
    SystemPackage
    """,
]
let testingTests: Room = [
    "LatchkeySimulatorsTests": world + " HTTPTypes",
    "VirtualSmartCardTests": world + " VirtualSmartCard latchkey-card",
    "DocumentationTests": """
    Latchkey LatchkeyCertificates LatchkeyCredentials LatchkeyLocker LatchkeyLogin
    LatchkeyOAuth LatchkeyPKCS11 LatchkeyPostgreSQL LatchkeyPresence LatchkeyRelyingParty
    LatchkeySimulators LatchkeyTPM LatchkeyTesting LatchkeyVault X509 HTTPTypes
    Subprocess
    """,
    "FuzzTests": """
    Latchkey LatchkeyCertificates LatchkeyCredentials LatchkeyJOSE LatchkeyLocker LatchkeyLogin
    LatchkeyOAuth LatchkeyPKCS11 LatchkeyPasskeys LatchkeyPresence LatchkeyRelyingParty
    LatchkeySSH LatchkeyTPM TPM2 VirtualSmartCard SwiftASN1 X509 Crypto GRDB HTTPTypes
    """,
]

/// The programs of the package `Examples`, so that the tests build and run them, with an app's
/// settings and access.
let examples: [Target] = [
    ("credentials", "Latchkey LatchkeyCredentials LatchkeyPresence LatchkeyTPM"),
    ("device-server", "Crypto Hummingbird Latchkey LatchkeyRelyingParty LatchkeySQLite"),
    ("greeting", "Latchkey LatchkeyPresence LatchkeyTPM"),
    ("locker", "Latchkey LatchkeyLocker LatchkeyPresence LatchkeyTPM"),
    ("login", "Latchkey LatchkeyLogin LatchkeyPresence LatchkeyTPM"),
    (
        "mutual-tls",
        """
        Latchkey LatchkeyCertificates LatchkeyPresence LatchkeyTPM NIOCore NIOPosix NIOSSL X509
        """
    ),
    ("notes", "Latchkey LatchkeyLogin LatchkeyPresence LatchkeyTPM LatchkeyVault"),
    ("vault", "Latchkey LatchkeyPresence LatchkeyTPM LatchkeyVault"),
].map {
    .executableTarget(
        name: $0, dependencies: dependencies($1), path: "Examples/Sources/\($0)",
        packageAccess: false, swiftSettings: app)
}

// MARK: - Package

let sources = [
    ("Core", core), ("Hardware", hardware), ("Apps", apps), ("Agents", agents), ("Server", server),
    ("Programs", programs), ("Testing", testing),
].flatMap { modules("Sources/\($0)", $1) }
let suites = [
    ("Core", coreTests), ("Hardware", hardwareTests), ("Apps", appTests), ("Agents", agentTests),
    ("Server", serverTests), ("Programs", programTests), ("Testing", testingTests),
].flatMap { tests("Tests/\($0)", $1) }
/// Parts of other products. The packages of benchmarks and fuzzing also use some of them.
let internals: Set = [
    "CertificatesTrait", "NetworkTrait", "TestingTrait", "TPM2", "TPM2TCTI", "LatchkeyPlatform",
    "LatchkeyDesktop", "LatchkeyJOSE", "LatchkeyPasskeys", "LatchkeyServices", "LatchkeySSH",
]
let partsForTests = ["TPM2", "TPM2TCTI", "LatchkeyPasskeys", "LatchkeySSH"]

let package = Package(
    name: "latchkey",
    products: [.library(name: "_LatchkeyInternals", targets: partsForTests)]
        + sources.filter { !internals.contains($0.name) }.map {
            $0.type == .executable
                ? .executable(name: $0.name, targets: [$0.name])
                : .library(name: $0.name, targets: [$0.name])
        },
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
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1",
            traits: ["FullFoundation"]),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: c + sources + modules("Tests/Testing", testSupport) + suites + examples
)
