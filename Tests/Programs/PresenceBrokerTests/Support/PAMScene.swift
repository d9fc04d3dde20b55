import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

/// PAM with the module, in a mount namespace with its own accounts, `/etc` and `/run`. The user
/// `lab` has the password `login-password`. Needs root.
struct PAMScene {
    static let user: UInt32 = 6101
    static let password = "login-password"
    /// The user's password, which is a PIN by its form.
    static let digits: UInt32 = 6102
    static let numericPassword = "246802"

    /// `/run/latchkey` in the namespace. The service's socket is `login`, and the helper of the
    /// session part writes to `opened`.
    let directory: TemporaryDirectory
    let module: String

    init() throws {
        directory = try TemporaryDirectory()
        chmod(directory.path, 0o755)
        module = try Self.compiled()
        try directory.makeScript("helper", Self.helper)
        mkdir(directory.path(of: "out"), 0o777)
        chmod(directory.path(of: "out"), 0o777)
    }

    var socket: String { directory.path(of: "login") }

    /// Runs a program in the namespace.
    ///
    /// - Parameter input: Each line answers a prompt.
    func run(_ program: [String], input: [String] = [], within limit: Int = 180) async throws
        -> SystemProgram.Outcome
    {
        let text = input.map { "\($0)\n" }.joined()
        return try await SystemProgram("unshare").result(
            of: [
                "--mount", "--propagation", "private", "bash", "-c", Self.setup, "namespace",
                directory.path, module, "timeout", "\(limit)",
            ] + program, input: Array(text.utf8))
    }

    /// Signs `lab` in with `pamtester`.
    func signIn(
        _ service: String = "one", as user: String = "lab", typing input: String...,
        remoteHost: String? = nil, then operations: [String] = []
    ) async throws -> SystemProgram.Outcome {
        let host = remoteHost.map { ["-I", "rhost=\($0)"] } ?? []
        return try await run(
            ["pamtester"] + host + [service, user, "authenticate"] + operations, input: input)
    }

    /// Changes the password of `lab`, as a setuid program that the user starts.
    func changePassword(to new: String, remoteHost: String? = nil) async throws
        -> SystemProgram.Outcome
    {
        let host = remoteHost.map { ["-I", "rhost=\($0)"] } ?? []
        return try await run(
            ["setpriv", "--ruid=\(Self.user)", "pamtester"] + host + [
                "change", "lab", "chauthtok",
            ],
            input: [Self.password, new, new])
    }

    /// Waits for a run of the helper, and returns its lines. The next call waits for another run.
    func opened() async throws -> [String] {
        try #require(await poll { !runs.isEmpty }, "the helper did not run")
        let path = directory.path(of: "out/\(try #require(runs.first))")
        defer { unlink(path) }
        return try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            .map(String.init)
    }

    /// Whether the helper ran, and ``opened()`` did not return it yet.
    var isOpened: Bool { !runs.isEmpty }

    private var runs: [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: directory.path(of: "out"))
        return names?.filter { $0.hasPrefix("opened") } ?? []
    }

    /// Records how the module starts its helper: arguments, ids, environment, secret, the
    /// descriptors of `/etc/shadow`, which a program that signs in has open, and what else it inherits
    /// (of the ignored signals not those from 32, of which glibc reserves two).
    private static let helper = """
        #!/bin/bash
        secret=$(od -An -v -tx1 | tr -d ' \\n')
        others=$(readlink /proc/$$/fd/* | grep -c shadow)
        { echo "$*"; id -u; id -G; echo "$HOME $XDG_RUNTIME_DIR"; echo "$secret"; echo "$others"; pwd
          umask; echo $((0x$(sed -n 's/^SigIgn:.//p' /proc/self/status) & 0x7fffffff)); } > /run/latchkey/out/new.$$
        mv /run/latchkey/out/new.$$ /run/latchkey/out/opened.$$
        """

    /// Arguments: the directory, the module, and the program.
    private static let setup = #"""
        set -e
        run=$1 module=$2; shift 2
        mount -t tmpfs none /mnt; mkdir /mnt/u /mnt/w
        mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w /etc
        mount -t tmpfs -o mode=755 none /run
        mkdir -p /run/latchkey /run/user /run/lock /run/sudo /run/faillock
        mount --bind "$run" /run/latchkey
        account() {
            echo "$1:x:$2:$2::/home/$1:/bin/sh" >> /etc/passwd; echo "$1:x:$2:" >> /etc/group
            echo "$1:$(openssl passwd -6 "$3"):19000:0:99999:7:::" >> /etc/shadow
        }
        account lab 6101 login-password
        account digits 6102 246802
        # An account that the service outside this namespace knows too.
        sed -i "s|^daemon:[^:]*:|daemon:$(openssl passwd -6 login-password):|" /etc/shadow
        tail() {
            echo "auth [success=1 default=ignore] pam_unix.so nullok try_first_pass nodelay
        auth requisite pam_deny.so
        auth required pam_permit.so
        auth optional $module learn
        account required pam_permit.so
        password required pam_permit.so
        session optional $module"
        }
        { echo "auth [success=2 default=ignore] $module"; tail; } > /etc/pam.d/one
        { echo "auth [success=2 default=ignore] $module finger"; tail; } > /etc/pam.d/finger
        { echo "auth [success=2 default=ignore] $module pin"; tail; } > /etc/pam.d/pin
        { echo "auth [success=2 default=ignore] /nowhere/pam_latchkey.so"; tail; } > /etc/pam.d/missing
        { echo "auth required pam_faillock.so preauth silent deny=2"
          echo "auth [success=3 default=ignore] $module"
          echo "auth [success=2 default=ignore] pam_unix.so nullok try_first_pass nodelay"
          echo "auth [default=die] pam_faillock.so authfail deny=2"
          echo "auth requisite pam_deny.so"
          echo "auth required pam_permit.so"; } > /etc/pam.d/faillock
        { echo "auth [success=2 default=ignore] $module"; tail; } > /etc/pam.d/sudo
        # A module for another factor after pam_unix; and one that asks before this one.
        { echo "auth [success=3 default=ignore] $module"
          echo "auth [success=2 default=ignore] pam_unix.so nullok try_first_pass nodelay"
          echo "auth [success=1 default=ignore] pam_permit.so"
          echo "auth requisite pam_deny.so"
          echo "auth required pam_permit.so"
          echo "auth optional $module learn"; } > /etc/pam.d/factor
        { echo "auth optional pam_unix.so nodelay"
          echo "auth [success=2 default=ignore] $module"; tail; } > /etc/pam.d/asked
        { echo "password [success=1 default=ignore] pam_unix.so nullok sha512"
          echo "password requisite pam_deny.so"
          echo "password required pam_permit.so"
          echo "password optional $module"; } > /etc/pam.d/change
        echo "Defaults env_reset, timestamp_timeout=0, passwd_tries=3
        root ALL=(ALL) ALL
        lab ALL=(ALL) ALL" > /etc/sudoers
        exec "$@"
        """#

    /// Compiles the module once in a test process, with a helper of the test.
    private static func compiled() throws -> String {
        try library.withLock { path in
            if let path { return path.module }
            let folder = try TemporaryDirectory()
            chmod(folder.path, 0o755)
            let module = folder.path(of: "pam_latchkey.so")
            let source = BuiltProduct.packageFolder
                .appending(path: "Sources/Programs/pam_latchkey/pam_latchkey.c").path()
            let compile = Process()
            compile.executableURL = URL(filePath: "/usr/bin/env")
            compile.arguments = [
                "cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                "-Wl,-z,defs", "-DLATCHKEY_PATIENCE=200",
                #"-DLATCHKEY_HELPER="/run/latchkey/helper""#, "-o", module, source,
                "-lpam",
            ]
            try compile.run()
            compile.waitUntilExit()
            try #require(compile.terminationStatus == 0, "the module does not compile")
            path = (folder, module)
            return module
        }
    }

    private static let library = Mutex<(folder: TemporaryDirectory, module: String)?>(nil)
}
