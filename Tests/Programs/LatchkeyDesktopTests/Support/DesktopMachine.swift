import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A machine in a mount namespace: its own /run, the account `lab` with the password
/// `login-password`, the profiles of PAM, a service of the sign-in in Python, gnome-keyring-daemon, and the built tool.
struct DesktopMachine {
    /// Speaks the service's protocol, with the PIN 123456 and its record in memory.
    private static let service = """
        import os, pwd, socket, sys
        record, path = None, "/run/latchkey/login"
        def answer(words):
            global record
            command, user, rest = words[0], int(words[1]), words[2:]
            assert user == 6101
            if command == "status":
                return f"status {record['state']} {record['kind']} {record['generation']} sealed fresh set unproven" \\
                    if record else "status none - 0 - - set unproven"
            if command == "enrol":
                kind, secret, password, pin = rest
                if record: return "error exists"
                if pin != "123456": return "no 2"
                record = dict(state="pending", kind=kind, generation=1, secret=secret, password=password)
                return "done 1"
            if command == "remove" and rest == ["0", "-"]:
                print("ended by root", flush=True)
                return "done 0"
            if not record: return "error absent"
            if command == "remove" and rest[1] == "-":
                if int(rest[0]) != record["generation"]: return "error generation"
                record = None
                print("deleted by root", flush=True)
                return "done 0"
            if command == "release":
                return f"secret {record['kind']} {record['secret']}" if rest == [record["password"]] else "error password"
            if int(rest[0]) != record["generation"]: return "error generation"
            if command == "activate":
                record.update(state="active", generation=2)
                return "done 2"
            if command == "remove":
                if rest[1] != record["password"]: return "error password"
                record = None
                return "done 0"
        listener = socket.socket(socket.AF_UNIX); listener.bind(path); os.chmod(path, 0o666); listener.listen(8)
        while True:
            connection, _ = listener.accept()
            with connection:
                line = b""
                while not line.endswith(b"\\n") and (more := connection.recv(4096)): line += more
                if line: connection.sendall((answer(line.decode().rstrip("\\n").split(" ")) + "\\n").encode())
        """

    private static let root = """
        set -e
        cd "$1"
        mount -t tmpfs -o mode=755 none /run
        mkdir -p /run/latchkey /run/user; install -d -o 6101 -g 6101 -m 700 /run/user/6101 home
        for file in passwd group shadow; do cp -p /etc/$file $file; done
        echo "lab:x:6101:6101::$1/home:/bin/bash" >> passwd; echo "lab:x:6101:" >> group
        echo "lab:$(openssl passwd -6 login-password):19000:0:99999:7:::" >> shadow
        for file in passwd group shadow; do mount --bind $file /etc/$file; done
        modules=$(dirname /usr/lib/*-linux-gnu/security/pam_unix.so); mkdir pam security
        cp -a /etc/pam.d/. pam; cp -a "$modules/." security; touch security/pam_latchkey.so; cp common-auth pam
        mount --bind pam /etc/pam.d; mount --bind security "$modules"
        python3 service.py & service=$!
        until [ -S /run/latchkey/login ]; do sleep 0.02; done
        chmod 711 .
        status=0
        setpriv --reuid=6101 --regid=6101 --clear-groups env -i PATH="/usr/bin:/bin" HOME="$1/home" \\
            XDG_RUNTIME_DIR=/run/user/6101 bash user.sh || status=$?
        env -i PATH=/usr/bin:/bin HOME=/root bash root.sh
        kill $service
        exit $status
        """

    private static let user = """
        cd "$HOME/.."
        printf %s "$(cat keyring-password)" | gnome-keyring-daemon --foreground --unlock --components=secrets \\
            >"$HOME/daemon.log" 2>&1 & daemon=$!
        until [ -S "$XDG_RUNTIME_DIR/keyring/control" ] && [ -f "$HOME/.local/share/keyrings/login.keyring" ]; do
            sleep 0.02; done
        desktop() { ./latchkey desktop "$@" --pin-source "file:$HOME/pin"; echo "status $?"; }
        umask 077; echo 123456 > "$HOME/pin"
        . ./commands.sh
        kill $daemon
        """

    private static let profiles = """
        auth [success=2 default=ignore] pam_latchkey.so
        auth [success=1 default=ignore] pam_unix.so try_first_pass
        auth requisite pam_deny.so
        auth required pam_permit.so
        auth optional pam_latchkey.so learn

        """

    /// Runs commands of a shell as the user: `desktop` is `latchkey desktop`. Then those of root.
    ///
    /// - Parameter auth: The lines of common-auth.
    static func run(
        keyringPassword: String = "login-password", auth: String = profiles, _ commands: String,
        asRoot last: String = ""
    ) async throws -> String {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let files = [
            "service.py": service, "user.sh": user, "commands.sh": commands, "root.sh": last,
            "keyring-password": keyringPassword, "common-auth": auth,
        ]
        for (name, text) in files {
            try Data(text.utf8).write(to: directory.url.appending(path: name))
            try #require(chmod(directory.path(of: name), 0o644) == 0)
        }
        try directory.copyProgram(BuiltProduct.path(of: "latchkey"), as: "latchkey")
        let outcome = try await SystemProgram("timeout").result(of: [
            "-k", "1", "280", "unshare", "--mount", "--propagation", "private", "bash", "-c", root,
            "machine", directory.path,
        ])
        return outcome.text
    }
}
