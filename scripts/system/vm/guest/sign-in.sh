# shellcheck shell=sh
# What the scenarios of the sign-in share: the users' passwords, the installed profiles of PAM, and functions for Ada's keyring.
password=login-password pin=135790
for user in ada eve root; do echo "$user:$password"; done | chpasswd
usermod -aG sudo ada
try 0 "the package's script" sh /scenario/postinst configure
grep -q pam_latchkey /etc/pam.d/common-* && failed "the profiles are off" || passed "the profiles are off"
try 0 "the administrator turns the profiles on" pam-auth-update --enable latchkey latchkey-session
# Without the second unit only root may log in.
try 0 "systemd starts the socket" systemctl start latchkey-login.socket systemd-user-sessions.service

is_locked() {
    as ada busctl --user get-property org.freedesktop.secrets /org/freedesktop/secrets/collection/login \
        org.freedesktop.Secret.Collection Locked | grep -qx "b $1"
}
# enable_sign_in: stores a password in the open keyring, and turns on the sign-in with a PIN.
enable_sign_in() {
    expect 0 "the keyring stores a password" ada sh -c \
        'printf %s stored-text | timeout 60 secret-tool store --label=test what test'
    write ada pins $pin $pin
    chmod 600 /home/ada/pins
    expect 0 "a key sets the user's PIN" ada latchkey key create --policy pin --pin-source file:/home/ada/pins
    expect 0 "desktop enable" ada sh -c "echo $password | latchkey desktop enable --pin-source file:/home/ada/pins"
}
# has_opened_keyring: checks that the login opened the keyring.
has_opened_keyring() {
    wait_for is_locked false && passed "it opens the keyring"
    expect 0 "which has the stored password" ada timeout 60 secret-tool lookup what test
    says "unchanged" '^stored-text$'
}
