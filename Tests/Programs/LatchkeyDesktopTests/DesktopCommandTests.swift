import Foundation
import LatchkeyTesting
import Testing

/// `latchkey desktop` as another user's process, with the real keyring daemon, and the real check of
/// the login password.
@Suite(
    .requires(program: "gnome-keyring-daemon"), .requires(program: "unshare"),
    .requires(program: "setpriv"), .requires(program: "unix_chkpwd"),
    .requires(program: "openssl"),
    .enabled(if: geteuid() == 0, "needs root for the account of another user"))
struct DesktopCommandTests {
    @Test func `the commands enable, show, recover and disable`() async throws {
        let output = try await DesktopMachine.run(
            """
            echo "A $(desktop status --json)"
            echo "K $(desktop status | grep signs)"
            echo "B $(echo login-password | desktop enable --json 2>"$HOME/notice")"
            echo "M $(cat "$HOME/notice")"
            echo "L $(desktop status | grep signs)"
            echo "C $(desktop status --json)"
            echo "D $(echo login-password | desktop enable --json 2>/dev/null)"
            text=$(echo login-password | ./latchkey desktop recover)
            echo "E ${#text} $(echo "$text" | tr -d 0-9a-f)"
            echo "F $(echo wrong | desktop disable --json 2>/dev/null)"
            echo "G $(printf 'login-password\\n%s\\n' "$text" | desktop recover --restore --json 2>&1)"
            echo "H $(echo login-password | desktop disable --json 2>&1)"
            echo "I $(desktop status --json)"
            echo "J $(echo login-password | desktop disable --json 2>/dev/null)"
            """)
        func expect(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
            #expect(output.contains(text), "\(output)", sourceLocation: sourceLocation)
        }
        expect(
            #"A {"fingerAlone":false,"keyring":null,"loginKeyring":"encrypted","passwordCopy":"absent","pinSet":true,"sealed":false,"signInAllowed":false,"state":"none"}"#
                + "\nstatus 0")
        expect(#"B {"enabled":true,"keyring":"gnome"}"# + "\nstatus 0")
        #expect(output.contains(/M .*recovery text/), "\(output)")
        expect(
            #"C {"fingerAlone":false,"keyring":"gnome","loginKeyring":"encrypted","passwordCopy":"fresh","pinSet":true,"sealed":true,"signInAllowed":false,"state":"active"}"#
        )
        expect(#"D {"enabled":true,"keyring":"gnome"}"# + "\nstatus 0")
        expect("E 69 -\n")
        let failure = try #require(output.firstMatch(of: /F .*"code":"wrongProof".*\nstatus 4/))
        #expect(!failure.output.contains("login-password"))
        expect(#"G {"restored":true}"# + "\nstatus 0")
        expect(#"H {"enabled":false}"# + "\nstatus 0")
        #expect(output.contains(/I .*"state":"none"/))
        #expect(output.contains(/K PIN signs in:? +no\n/), "\(output)")
        #expect(output.contains(/L PIN signs in:? +after the next/), "\(output)")
        #expect(output.contains(/J .*"code":"notFound".*\nstatus 6/))
    }

    @Test func `without a keyring the sign-in alone is enabled and disabled`() async throws {
        let output = try await DesktopMachine.run(
            """
            echo "A $(echo login-password | desktop enable --keyring none 2>&1)"
            echo "B $(desktop status --json)"
            echo "C $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "D $(echo login-password | desktop recover --json 2>/dev/null)"
            echo "E $(echo login-password | desktop disable 2>&1)"
            rm "$HOME/.local/share/keyrings/login.keyring"
            echo "F $(echo login-password | desktop enable --json 2>/dev/null)"
            """)
        #expect(output.contains(/A The sign-in is enabled. Type your login password/), "\(output)")
        #expect(output.contains(/B .*"keyring":"none".*"sealed":true.*"state":"active"/))
        #expect(output.contains(/C .*"code":"wrongState".*without a keyring/), "\(output)")
        #expect(output.contains(/D .*"code":"wrongState"/))
        #expect(output.contains(/E Both copies of the secret are deleted/), "\(output)")
        #expect(output.contains(/F .*"code":"notFound".*--keyring none/), "\(output)")
    }

    @Test func `what cannot be undone is refused before anything changes`() async throws {
        let output = try await DesktopMachine.run(
            keyringPassword: "other",
            """
            echo "A $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "B $(echo login-passwort | desktop enable --json 2>/dev/null)"
            echo 12a456 > "$HOME/pin"
            echo "C $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "D $(echo login-password | desktop enable --keyring kwallet --json 2>/dev/null)"
            echo 999999 > "$HOME/pin"
            touch "$HOME/.identity"
            echo "E $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "F $(desktop status --json)"
            """)
        #expect(output.contains(/A .*the login password does not open the keyring.*\nstatus 4/))
        #expect(output.contains(/B .*the login password is wrong.*\nstatus 4/))
        #expect(output.contains(/C .*takes it as a password.*\nstatus 1/))
        #expect(output.contains(/D .*kdewallet.salt cannot be read/), "\(output)")
        #expect(output.contains(/E .*systemd-homed.*\nstatus 1/))
        #expect(output.contains(/F .*"state":"none"/), "\(output)")
    }

    /// Without a line of standard input, a question would be an error of its own.
    @Test func `what recover needs is checked before the first question`() async throws {
        let output = try await DesktopMachine.run(
            """
            echo "A $(desktop recover --json 2>/dev/null </dev/null)"
            echo "B $(echo login-password | desktop enable --json 2>/dev/null)"
            python3 - <<'END'
            import os, pty
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv("./latchkey", ["latchkey", "desktop", "recover"])
            seen = b""
            try:
                while data := os.read(terminal, 4096):
                    seen += data
                    # Ctrl-D
                    if seen.endswith(b": "): os.write(terminal, b"\\x04")
            except OSError:
                pass
            print("C", seen.decode(), flush=True)
            END
            kill $daemon; wait $daemon
            echo "D $(desktop recover --restore --json 2>/dev/null </dev/null)"
            rm "$HOME/.local/share/keyrings/login.keyring"
            echo "E $(desktop recover --restore --json 2>/dev/null </dev/null)"
            """,
            asRoot: """
                rm /run/latchkey/login
                echo "F $(setpriv --reuid=6101 --regid=6101 --clear-groups env HOME="$PWD/home" \\
                    XDG_RUNTIME_DIR=/run/user/6101 ./latchkey desktop recover --json 2>/dev/null </dev/null)"
                """)
        #expect(output.contains(/A .*does not open your keyring.*\nstatus 6/), "\(output)")
        #expect(output.contains(/B {"enabled":true,.*\nstatus 0/), "\(output)")
        #expect(output.contains("Login password: "), "\(output)")
        #expect(output.contains(/D .*gnome-keyring-daemon does not run.*\nstatus 7/), "\(output)")
        #expect(output.contains(/E .*there is no login keyring.*\nstatus 6/), "\(output)")
        #expect(output.contains(/F .*the service of the sign-in does not run/), "\(output)")
        #expect(!output.contains("standard input"), "\(output)")
    }

    /// Without a line of standard input, a question would be an error of its own.
    @Test func `everything that is missing is named together, before the first question`()
        async throws
    {
        let output = try await DesktopMachine.run(
            auth: "auth required pam_unix.so\n",
            """
            # The daemon would write the file again.
            kill $daemon; wait $daemon
            echo "[keyring]" > "$HOME/.local/share/keyrings/login.keyring"
            echo "A $(desktop enable --json 2>&1 </dev/null)"
            touch "$HOME/.identity"
            echo "B $(desktop enable --json 2>/dev/null </dev/null)"
            echo "C $(desktop enable --keyring kwallet --json 2>/dev/null </dev/null)"
            echo "D $(desktop enable --proof finger --json 2>/dev/null </dev/null)"
            """)
        #expect(
            output.contains(/D .*is off\. .* turns it on\.\\nNo fingerprint can be checked:/),
            "\(output)")
        // Each is a line with its next step.
        #expect(output.contains(/A latchkey: .*: 2 conditions are not met\.\n/), "\(output)")
        for line in [
            /\nlatchkey: The sign-in with a PIN or finger is off\. .* turns it on\.\n/,
            /\nlatchkey: The login keyring .* is not encrypted\. Set a password for it .*\n/,
        ] { #expect(output.contains(line), "\(output)") }
        #expect(output.contains(/B .*Systemd-homed .* is off\. .*is not encrypted.*\nstatus 1/))
        #expect(output.contains(/C .*Systemd-homed .* is off\. .*The wallet's salt/), "\(output)")
        #expect(!output.contains("standard input"), "\(output)")
    }

    @Test func `root ends the sign-in of another user, and the user does not`() async throws {
        let output = try await DesktopMachine.run(
            """
            echo "A $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "B $(desktop disable --user lab --json 2>/dev/null)"
            """,
            asRoot: """
                desktop() { ./latchkey desktop "$@"; echo "status $?"; }
                echo "C $(desktop disable --user lab --json)"
                echo "D $(desktop disable --user 6101)"
                echo "E $(desktop disable --user nobody-else --json 2>/dev/null)"
                echo "F $(desktop disable --user 06101 --json 2>/dev/null)"
                echo "G $(desktop disable --user root --json 2>/dev/null)"
                echo "H $(desktop disable --user lab --delete-copies --json 2>/dev/null </dev/null)"
                echo "I $(desktop disable --user lab --delete-copies --yes)"
                echo "J $(desktop disable --user lab --delete-copies --json)"
                echo "K $(desktop disable --delete-copies --yes --json 2>/dev/null)"
                """)
        #expect(output.contains(/A {"enabled":true,.*\nstatus 0/), "\(output)")
        #expect(output.contains(/B .*"code":"refused".*\nstatus [1-9]/), "\(output)")
        #expect(output.contains(/C {"ended":true,"uid":6101}\nstatus 0/), "\(output)")
        #expect(output.contains(/D .*no longer sign in.\nstatus 0/), "\(output)")
        for name in ["E", "F", "G"] {
            #expect(output.contains(try Regex("\(name) .*\"code\":\"notFound\"")), "\(output)")
        }
        #expect(output.contains(/H .*"code":"invalidInput".*\nstatus [1-9]/), "\(output)")
        #expect(
            output.contains(
                /I .*no longer sign in. The copies of the secret are deleted.\nstatus 0/),
            "\(output)")
        #expect(output.components(separatedBy: "deleted by root").count == 2, "\(output)")
        // Without a record that the account owns.
        #expect(output.contains(/J {"ended":true,"uid":6101}\nstatus 0/), "\(output)")
        #expect(output.contains(/K .*"code":"usage".*\nstatus 2/), "\(output)")
        #expect(output.components(separatedBy: "ended by root").count == 4, "\(output)")
    }

    @Test func `a wrong PIN stores nothing, and the keyring keeps its password`() async throws {
        let output = try await DesktopMachine.run(
            """
            echo 999999 > "$HOME/pin"
            echo "A $(echo login-password | desktop enable --json 2>/dev/null)"
            echo "B $(desktop status --json)"
            echo 123456 > "$HOME/pin"
            echo "C $(echo login-password | desktop enable --json 2>/dev/null)"
            """)
        #expect(
            output.contains(/A .*"attemptsLeft":2.*"code":"wrongProof".*\nstatus 4/), "\(output)")
        #expect(output.contains(/B .*"state":"none"/))
        #expect(output.contains(/C {"enabled":true,"keyring":"gnome"}\nstatus 0/))
    }
}
