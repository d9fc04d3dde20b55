import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Tokens of other projects that can't have Latchkey's keys: NSS softoken and IBM's opencryptoki.
/// Both need files in fixed places, which a script mounts in its own namespaces.
@Suite(
    .enabled("needs CAP_SYS_ADMIN, to mount over the directories of p11-kit and opencryptoki") {
        try await SystemProgram("unshare").result(of: [
            "-m", "mount", "-t", "tmpfs", "tmpfs", "/run",
        ]).isSuccess
    },
    .timeLimit(.minutes(15)))
struct RefusedTokenTests {
    private struct Result {
        let status: Int
        let json: [String: JSON]

        var code: String? { json["error"]?["code"]?.string }
        var message: String {
            json["error"].map { "\($0["message"]?.string ?? "") \($0["recovery"]?.string ?? "")" }
                ?? ""
        }
        /// The problem that `doctor` reports.
        var problem: JSON? { json["checks"]?.array?.first { $0["state"] == "problem" } }
    }

    /// Runs a script as root of its own namespaces, in which `run NAME PINS ARGUMENTS…` runs the
    /// tool; its processes end with it.
    ///
    /// - Returns: The results by name.
    private func results(_ token: String, _ script: String) async throws -> [String: Result] {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = token
        let pins = machine.directory.path(of: "pins")
        machine.environment["LATCHKEY_PIN_SOURCE"] = "file:\(pins)"
        let functions = """
            set -eu
            run() {
                local name=$1 status=0 output; printf "$2" >'\(pins)'; chmod 600 '\(pins)'; shift 2
                output=$('\(Products.latchkey)' "$@" --json </dev/null 2>/dev/null) || status=$?
                echo "RESULT $name $status ${output//$'\\n'/ }"
            }

            """
        let output = try await program(
            "unshare", ["-mipf", "--mount-proc", "--kill-child", "bash", "-c", functions + script],
            environment: machine.environment.merging(["WORK": machine.directory.path]) { $1 })
        return try output.split(separator: "\n").reduce(into: [:]) { results, line in
            let words = line.split(separator: " ", maxSplits: 3)
            guard words.count == 4, words[0] == "RESULT", let status = Int(words[2]) else { return }
            let json = try JSONDecoder().decode([String: JSON].self, from: Data(words[3].utf8))
            results[String(words[1])] = Result(status: status, json: json)
        }
    }

    @Test(
        .requires(program: "certutil"),
        .enabled(
            if: FileManager.default.fileExists(atPath: "\(libraries)/libsoftokn3.so"),
            "needs libnss3"))
    func
        `NSS softoken gets its parameters from p11-kit's configuration, and is refused before a prompt`()
        async throws
    {
        let results = try await results(
            "pkcs11:token=NSS%20Certificate%20DB",
            """
            mkdir "$WORK/nss"; printf 123456 >"$WORK/password"
            certutil -N -d "sql:$WORK/nss" -f "$WORK/password"
            mount -t tmpfs -o mode=755 tmpfs /usr/share/p11-kit/modules
            module='\(libraries)/libsoftokn3.so'
            run unconfigured '' --token "pkcs11:?module-path=$module" key create
            echo "module: $module" >/usr/share/p11-kit/modules/nss.module
            echo "x-init-reserved: configdir='sql:$WORK/nss' certPrefix='' keyPrefix='' secmod='secmod.db' flags=" \
                >>/usr/share/p11-kit/modules/nss.module
            cp "$WORK/nss/key4.db" "$WORK/before"
            run init '1234\n123456\n' token init --label Fresh
            run erase '123456\n123456\n' token init --label Fresh --erase
            cmp "$WORK/nss/key4.db" "$WORK/before" || run changed '' token nothing
            run list '' token list
            run create '' key create
            run open '' key create --policy none
            run path '' --token "pkcs11:token=NSS%20Certificate%20DB?module-path=$module" key create
            run doctor '' doctor
            mkdir "$WORK/blank"
            sed -i "s,$WORK/nss,$WORK/blank," /usr/share/p11-kit/modules/nss.module
            run blank '' key create
            run blank-init '1234\n123456\n' token init --label Fresh
            run blank-doctor '' doctor
            run proxy '' --token "pkcs11:?module-path=\(libraries)/p11-kit-proxy.so" key create
            """)
        let unconfigured = try #require(results["unconfigured"])
        #expect(unconfigured.status == 7)
        #expect(unconfigured.message.contains("x-init-reserved"), "\(unconfigured.message)")
        let labels =
            results["list"]?.json["tokens"]?.array?.compactMap { $0["label"]?.string } ?? []
        #expect(labels.contains("NSS Certificate DB"), "\(labels)")
        #expect(results["changed"] == nil, "the database is unchanged")
        for name in ["create", "open", "path", "init", "erase", "blank", "blank-init"] {
            let result = try #require(results[name])
            #expect(result.status == 1 && result.code == "refused", "\(name): \(result)")
            #expect(
                result.message.contains("NSS softoken keeps keys in files"),
                "\(name): \(result.message)")
        }
        for name in ["doctor", "blank-doctor"] {
            let doctor = try #require(results[name])
            #expect(doctor.status == 1, "\(doctor)")
            #expect(
                doctor.problem?["finding"]?.string?.contains("NSS softoken keeps keys in files")
                    == true, "\(doctor)")
        }
        let proxy = try #require(results["proxy"])
        #expect(proxy.status == 7)
        #expect(proxy.message.contains("Remove `module-path=`"), "\(proxy.message)")
    }

    @Test(
        .requires(program: "expect"),
        .enabled(
            if: FileManager.default.fileExists(atPath: "/usr/sbin/pkcsslotd"), "needs opencryptoki")
    )
    func
        `opencryptoki is initialized with its factory PIN, and refused because it has no elliptic curves`()
        async throws
    {
        let results = try await results(
            "pkcs11:?module-path=\(libraries)/pkcs11/libopencryptoki.so",
            """
            for directory in /var/lib/opencryptoki /run /dev/shm; do mount -t tmpfs tmpfs "$directory"; done
            directories="/run/lock/opencryptoki /run/opencryptoki /var/lib/opencryptoki /var/log/opencryptoki"
            mkdir -p $directories /run/lock/opencryptoki/swtok /var/lib/opencryptoki/swtok/TOK_OBJ
            chgrp -R pkcs11 $directories; chmod -R 770 $directories
            printf 'version opencryptoki-3.8\\nslot 3\\n{\\nstdll = libpkcs11_sw.so\\n}\\n' >/run/opencryptoki.conf
            mount --bind /run/opencryptoki.conf /etc/opencryptoki/opencryptoki.conf
            /usr/sbin/pkcsslotd >&2
            for attempt in $(seq 6000); do [ -S /run/pkcsslotd.socket ] && break; sleep 0.05; done
            run blank '' doctor
            run wrong '12345678\\n123456\\n' token init --label Work
            screen=$(LATCHKEY_PIN_SOURCE=tty expect -c '
                set timeout 300
                spawn \(Products.latchkey) token init --label Work
                expect "Officer PIN:"; send "87654321\\r"
                expect "New PIN:"; send "123456\\r"
                expect "again:"; send "123456\\r"
                expect eof')
            case $screen in *'factory PIN'*) echo 'RESULT prompt 0 {}' ;; *) echo "$screen" >&2 ;; esac
            run list '' token list
            run create '123456\\n' key create
            run doctor '' doctor
            """)
        #expect(results["blank"]?.status == 1)
        let wrong = try #require(results["wrong"])
        #expect(wrong.status == 4, "\(wrong)")
        #expect(wrong.message.contains("security officer's PIN is wrong"), "\(wrong.message)")
        #expect(results["prompt"] != nil, "the prompt does not name the factory PIN")
        let list = try #require(results["list"])
        #expect(list.json["tokens"]?.array?.first?["label"] == "Work", "\(list)")
        let create = try #require(results["create"])
        #expect(create.status == 1 && create.code == "unsupported", "\(create)")
        #expect(create.message.contains("CKM_ECDSA"), "\(create.message)")
        let doctor = try #require(results["doctor"])
        #expect(doctor.status == 1, "\(doctor)")
        #expect(doctor.problem?["finding"]?.string?.contains("CKM_ECDSA") == true, "\(doctor)")
    }
}

private let libraries = "/usr/lib/x86_64-linux-gnu"
