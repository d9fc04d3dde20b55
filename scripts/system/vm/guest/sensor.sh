# shellcheck shell=sh
# Functions of the scenarios with fprintd's virtual sensor.

mkdir -p /run/sensor /run/systemd/system/fprintd.service.d
printf '[Service]\nEnvironment=FP_VIRTUAL_DEVICE=/run/sensor/socket\nReadWritePaths=/run/sensor\nRestrictAddressFamilies=AF_UNIX\n' \
    >/run/systemd/system/fprintd.service.d/sensor.conf
systemctl daemon-reload

# scan FINGER…: touches the sensor; its socket exists while a client waits for a finger.
scan() {
    python3 -S - "$@" <<'P'
import socket, sys, time
for finger in sys.argv[1:]:
    for _ in range(3000):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect("/run/sensor/socket")
                s.sendall(f"SCAN {finger}".encode())
            break
        except OSError:
            time.sleep(0.1)
    time.sleep(1)
P
}
# enrol: enrols Ada's finger `thumb`.
enrol() {
    scan thumb thumb thumb thumb thumb &
    fprintd-enroll -f right-thumb ada >$output 2>&1
    says "a finger is enrolled" 'enroll-completed'
    wait $!
}
asks_for_finger() { grep -q 'Touch the fingerprint reader' /home/ada/prompts; }
sensor_waits() {
    busctl get-property net.reactivated.Fprint /net/reactivated/Fprint/Device/0 net.reactivated.Fprint.Device finger-needed |
        grep -q true
}
# answer FINGER…: touches the sensor with one finger after the other while a window of Ada asks for one. The sensor forgets a finger
# that comes before it waits for one.
answer() {
    wait_for asks_for_finger
    for finger; do wait_for sensor_waits && scan "$finger"; done
}
