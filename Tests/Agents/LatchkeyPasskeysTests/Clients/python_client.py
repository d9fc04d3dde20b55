"""Uses an authenticator through a UNIX socket that carries HID packets. python-fido2 is the client, py_webauthn the server.

Usage: python_client.py SOCKET
"""
import hashlib
import json
import os
import socket
import sys
import threading

import webauthn
from fido2.client import ClientError, DefaultClientDataCollector, Fido2Client, UserInteraction
from fido2.ctap import CtapError
from fido2.ctap2 import Ctap2
from fido2.ctap2.extensions import CredProtectExtension, HmacSecretExtension
from fido2.hid import CTAPHID, CtapHidDevice
from fido2.hid.base import CtapHidConnection, HidDescriptor
from fido2.server import Fido2Server
from fido2.webauthn import PublicKeyCredentialRpEntity, PublicKeyCredentialUserEntity
from webauthn.helpers.structs import UserVerificationRequirement

PATH = sys.argv[1]
SITE = "example.org"
ORIGIN = f"https://{SITE}"


class Connection(CtapHidConnection):
    """Packets over a socket. Like hidraw, it receives the packets of all programs."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(300)
        self.socket.connect(PATH)

    def read_packet(self):
        return self.socket.recv(64)

    def write_packet(self, data):
        self.socket.send(data)

    def close(self):
        self.socket.close()


def device():
    return CtapHidDevice(HidDescriptor("socket", 0x1209, 1, 64, 64, "Latchkey", None), Connection())


class Interaction(UserInteraction):
    def prompt_up(self):
        pass

    def request_pin(self, permissions, rp_id):
        raise AssertionError("the client asked for a PIN")

    def request_uv(self, permissions, rp_id):
        return True


first = device()
client = Fido2Client(
    first, DefaultClientDataCollector(ORIGIN), Interaction(),
    extensions=[HmacSecretExtension(allow_hmac_secret=True), CredProtectExtension()])
server = Fido2Server(PublicKeyCredentialRpEntity(id=SITE, name="Example"), attestation="direct")
credentials = []


def check(condition, text=""):
    if not condition:
        raise AssertionError(text)


def create(user, extensions=None, exclude=None, resident="required"):
    options, state = server.register_begin(
        PublicKeyCredentialUserEntity(id=user, name=user.decode()), exclude,
        resident_key_requirement=resident, user_verification="required", extensions=extensions)
    result = client.make_credential(options.public_key)
    data = server.register_complete(state, result)
    check(data.is_user_verified() and data.is_user_present())
    check(result.response.attestation_object.fmt == "packed")
    return result, data


def login(allowed=None, extensions=None):
    options, state = server.authenticate_begin(allowed, user_verification="required", extensions=extensions)
    selection = client.get_assertion(options.public_key)
    check(len(selection.get_assertions()) == 1)
    result = selection.get_response(0)
    server.authenticate_complete(state, credentials, result)
    check(result.response.authenticator_data.is_user_verified())
    return result


info = Ctap2(first).info
check(info.versions == ["FIDO_2_0"] and info.options == {"rk": True, "up": True, "uv": True}, str(info))
print("info ok")

_, ada = create(b"ada", {"prf": {}})
credentials.append(ada.credential_data)
print("create ok")
_, eve = create(b"eve", {"prf": {}})
credentials.append(eve.credential_data)
print("create second account ok")

try:
    create(b"max", exclude=credentials)
    raise AssertionError("the exclude list was ignored")
except ClientError as error:
    check(error.code == ClientError.ERR.DEVICE_INELIGIBLE, str(error))
print("excluded ok")

check(login([ada.credential_data]).raw_id == ada.credential_data.credential_id)
check(login(credentials).raw_id in [c.credential_id for c in credentials])
print("list ok")
check(login().response.user_handle == b"eve", "the chosen account")
print("two accounts ok")

secret = {"prf": {"eval": {"first": b"x" * 32, "second": b"y" * 32}}}
outputs = [login([ada.credential_data], secret).client_extension_results["prf"]["results"] for _ in range(2)]
check(outputs[0] == outputs[1] and outputs[0]["first"] != outputs[0]["second"], str(outputs))
other = login([eve.credential_data], secret).client_extension_results["prf"]["results"]
check(other["first"] != outputs[0]["first"])
print("prf ok")

_, lin = create(b"lin", {"credentialProtectionPolicy": "userVerificationRequired"})
credentials.append(lin.credential_data)
check(login([ada.credential_data, lin.credential_data]) is not None)
print("credProtect ok")

# py_webauthn checks the same ceremonies, from JSON.
from fido2.webauthn import AuthenticationResponse, RegistrationResponse  # noqa: E402
options, state = server.register_begin(
    PublicKeyCredentialUserEntity(id=b"py", name="py"), resident_key_requirement="required",
    user_verification="required")
result = client.make_credential(options.public_key)
verified = webauthn.verify_registration_response(
    credential=json.dumps(dict(result)), expected_challenge=options.public_key.challenge, expected_rp_id=SITE,
    expected_origin=ORIGIN, require_user_verification=True)
check(verified.user_verified and verified.fmt == "packed", str(verified))
options, state = server.authenticate_begin(
    [result.response.attestation_object.auth_data.credential_data], user_verification="required")
answer = client.get_assertion(options.public_key).get_response(0)
checked = webauthn.verify_authentication_response(
    credential=json.dumps(dict(answer)), expected_challenge=options.public_key.challenge, expected_rp_id=SITE,
    expected_origin=ORIGIN, credential_public_key=verified.credential_public_key, credential_current_sign_count=0,
    require_user_verification=True)
check(checked.user_verified and checked.new_sign_count == 0, str(checked))
print("py_webauthn ok")

try:
    Ctap2(first).make_credential(
        hashlib.sha256(b"").digest(), {"id": "no.example", "name": "No"}, {"id": b"a", "name": "a"},
        [{"type": "public-key", "alg": -7}])
    raise AssertionError("a refused request succeeded")
except CtapError as error:
    check(error.code == CtapError.ERR.OPERATION_DENIED, str(error))
print("refused ok")

event = threading.Event()
try:
    Ctap2(first).selection(event=event, on_keepalive=lambda status: event.set())
    raise AssertionError("the selection was not cancelled")
except CtapError as error:
    check(error.code == CtapError.ERR.KEEPALIVE_CANCEL, str(error))
print("cancel ok")

# Two programs on channels of their own. python-fido2 refuses packets of other channels, which hidraw delivers too, so the
# second program sends raw packets.
thread = threading.Thread(target=lambda: Ctap2(first).selection())
raw = Connection()
nonce = os.urandom(8)
raw.write_packet(b"\xff\xff\xff\xff\x86\x00\x08" + nonce + bytes(49))
while True:
    packet = raw.read_packet()
    if packet[7:15] == nonce:
        break
channel = packet[15:19]
first.close()
first = device()
started = threading.Event()
results = []


def select():
    ctap = Ctap2(first)
    started.set()
    results.append(ctap.selection())


thread = threading.Thread(target=select)
thread.start()
started.wait()
while True:
    packet = raw.read_packet()
    # KEEPALIVE: the selection runs.
    if packet[4] == 0xBB and packet[7] == 2:
        break
raw.write_packet(channel + b"\x81\x00\x01" + b"x" + bytes(56))
while True:
    packet = raw.read_packet()
    if packet[:4] == channel:
        break
check(packet[4] == 0x80 | CTAPHID.ERROR and packet[7] == 6, packet.hex())
print("busy ok")
raw.close()
sys.stdout.flush()
os._exit(0)
