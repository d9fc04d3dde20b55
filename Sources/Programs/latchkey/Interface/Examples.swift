/// The examples in the help of each command.
enum Examples {
    /// The examples of a command, such as `latchkey key sign`.
    static func of(_ command: String) -> [String] {
        lines.filter { $0.hasPrefix(command + " ") || $0 == command }
    }

    private static let lines = """
        latchkey doctor
        latchkey doctor --json
        latchkey config list
        latchkey config list --json
        latchkey config get endpoint
        latchkey config get endpoint --json
        latchkey config set endpoint https://id.example.org
        latchkey config set client-id desktop
        latchkey config unset endpoint
        latchkey config unset client-id --json
        latchkey store reset
        latchkey store reset --store /srv/copy --yes
        latchkey login
        latchkey login --device
        latchkey enable
        latchkey enable --policy pin
        latchkey authenticate
        latchkey authenticate --presence pin
        latchkey disable
        latchkey disable --force
        latchkey status
        latchkey status --container work
        latchkey logout
        latchkey logout --keep-biometric
        latchkey key create --label laptop
        latchkey key create --ssh --policy user-presence
        latchkey key list
        latchkey key list --all
        latchkey key show laptop
        latchkey key show 3f2a --json
        latchkey key sign laptop report.pdf
        latchkey key sign laptop report.pdf --format der --output report.sig
        latchkey key export laptop --format pem
        latchkey key export laptop --format jwk
        latchkey key csr laptop --subject CN=laptop.example.org
        latchkey key csr laptop --subject CN=Ann --container work
        latchkey key attest laptop --challenge MDEyMzQ1Njc4OWFiY2RlZg
        latchkey key attest laptop --challenge MDEyMzQ1Njc4OWFiY2RlZg --form certify
        latchkey key rename laptop desktop
        latchkey key rename 3f2a desktop
        latchkey key delete 3f2a91c0-54d7-4b7e-9a55-0c2f8d1e6b73
        latchkey key delete 3f2a91c0-54d7-4b7e-9a55-0c2f8d1e6b73 --forget
        latchkey ssh list
        latchkey ssh list --json
        latchkey ssh add laptop
        latchkey ssh add backup --without-verification
        latchkey ssh remove laptop
        latchkey ssh remove 3f2a
        latchkey ssh export laptop
        latchkey ssh export laptop --certificate
        latchkey ssh restrict laptop --host git@git.example.org
        latchkey ssh restrict laptop --allow-forwarding
        latchkey ssh certificate laptop laptop-cert.pub
        latchkey ssh certificate laptop --remove
        latchkey ssh install
        latchkey ssh install --write
        latchkey pin change
        latchkey pin change laptop
        latchkey pin status
        latchkey pin status --json
        latchkey token list
        latchkey token list --json
        latchkey token keys --token pkcs11:token=work
        latchkey token keys --token pkcs11:token=work --json
        latchkey token init --token pkcs11:token=new --label work
        latchkey token init --token pkcs11:token=old --label work --erase
        latchkey token pin --token pkcs11:token=work
        latchkey token pin --token pkcs11:token=work --unblock
        latchkey attestation show
        latchkey attestation show --json
        latchkey attestation enrol
        latchkey attestation enrol --endpoint https://id.example.org
        latchkey attestation forget
        latchkey attestation forget --issuer https://id.example.org
        latchkey attestation verify --anchors anchors --challenge MDEyMzQ1Njc4OWFiY2RlZg < proof.json
        latchkey attestation verify --anchors anchors --challenge MDEyMzQ1Njc4OWFiY2RlZg --require presence < proof.json
        latchkey broker enrol --token-file /run/broker-token
        latchkey broker enrol --token-file token --endpoint https://id.example.org
        latchkey broker users
        latchkey broker users --json
        latchkey broker forget ann
        latchkey broker forget 1003 --yes
        latchkey passkey list
        latchkey passkey list --site example.org
        latchkey passkey show q83vEjRW
        latchkey passkey show q83vEjRW --json
        latchkey passkey rename q83vEjRW work
        latchkey passkey rename q83vEjRW ''
        latchkey passkey delete q83vEjRWeJCrze8
        latchkey passkey delete --all --yes
        latchkey passkey serve
        latchkey passkey serve --policy pin
        latchkey desktop enable
        latchkey desktop enable --keyring none
        latchkey desktop status
        latchkey desktop status --json
        latchkey desktop disable
        latchkey desktop disable --json
        latchkey desktop recover
        latchkey desktop recover --restore
        latchkey vault store database
        latchkey vault store database --biometrics < password.txt
        latchkey vault show database
        latchkey vault show database --json
        latchkey vault update database
        latchkey vault update database < password.txt
        latchkey vault upgrade database
        latchkey vault upgrade database --policy pin
        latchkey vault downgrade database
        latchkey vault downgrade database --container work
        latchkey vault lock database
        latchkey vault lock database --json
        latchkey vault unlock database
        latchkey vault unlock database --presence pin
        latchkey vault reset database
        latchkey vault reset --yes
        latchkey vault list
        latchkey vault list --container work
        latchkey vault status database
        latchkey vault status database --json
        latchkey credential add < token.json
        latchkey credential add --tag service=mail --policy pin < token.json
        latchkey credential list
        latchkey credential list --where service=mail
        latchkey credential show 91c0
        latchkey credential show 91c0 --json
        latchkey credential default 91c0
        latchkey credential default --none
        latchkey credential tag 91c0 service=mail
        latchkey credential tag 91c0 service=
        latchkey credential refresh 91c0
        latchkey credential refresh 91c0 --json
        latchkey credential revoke 91c0
        latchkey credential revoke 91c0 --type access
        latchkey credential remove 91c0
        latchkey credential remove 91c0 --json
        latchkey locker status
        latchkey locker status --json
        latchkey locker start
        latchkey locker start --level strong
        latchkey locker background
        latchkey locker background --json
        latchkey locker end --mode lock
        latchkey locker end --mode destroy
        latchkey locker easy-access enable
        latchkey locker easy-access change
        latchkey locker encrypt --level active < notes.txt
        latchkey locker encrypt --level offline --allow-offline < notes.txt
        latchkey locker decrypt < notes.locker
        latchkey locker decrypt --allow-offline < notes.locker
        """.split(separator: "\n").map(String.init)
}
