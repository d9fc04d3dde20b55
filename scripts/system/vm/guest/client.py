"""Uses python-fido2 over hidraw, for the scenario passkeys-ssh.

Usage: client.py NODE OTHER-NODE
"""
import hashlib
import os
import sys
import threading
import time

from fido2.ctap import CtapError
from fido2.ctap2 import Ctap2
from fido2.hid import CtapHidDevice, open_device

node, other = sys.argv[1:3]
found = {device.descriptor.path for device in CtapHidDevice.list_devices()}
assert {node, other} <= found, found
ours, theirs = Ctap2(open_device(node)), Ctap2(open_device(other))
RP, ALGORITHMS = {"id": "example.com", "name": "Example"}, [{"type": "public-key", "alg": -7}]


def challenge():
    return hashlib.sha256(os.urandom(16)).digest()


def step(name, expected, call):
    started = time.monotonic()
    try:
        result = call()
        code = 0
    except CtapError as error:
        result, code = None, error.code
    status = "ok" if code == expected else f"FAILED (status {code:#x} instead of {expected:#x})"
    print(f"{status} {name}: {time.monotonic() - started:.2f} s", flush=True)
    return result


def create(device, user, exclude=None):
    return device.make_credential(
        challenge(), RP, {"id": user, "name": user.decode()}, ALGORITHMS, exclude_list=exclude,
        options={"rk": True, "uv": True})


def descriptor(attestation):
    return {"type": "public-key", "id": attestation.auth_data.credential_data.credential_id}


def check(attestation, device, allow):
    hashed = challenge()
    assertion = device.get_assertion("example.com", hashed, allow, options={"uv": True})
    assertion.verify(hashed, attestation.auth_data.credential_data.public_key)
    return assertion


first = step("create", 0, lambda: create(ours, b"ada"))
step("exclude", CtapError.ERR.CREDENTIAL_EXCLUDED, lambda: create(ours, b"ada", [descriptor(first)]))
step("assert with a list", 0, lambda: check(first, ours, [descriptor(first)]))
step("list of none", 0, lambda: check(first, ours, None))
owned = step("create on the second device", 0, lambda: create(theirs, b"eve"))
# A client probes all devices for a credential, and then uses the one that has it.
step("probe of the second device's credential", CtapError.ERR.NO_CREDENTIALS, lambda: ours.get_assertion(
    "example.com", challenge(), [descriptor(owned)], options={"up": False}))
step("probe of the device that has it", 0, lambda: theirs.get_assertion(
    "example.com", challenge(), [descriptor(owned)], options={"up": False}))


def both():
    """Asks both devices at once, as a browser does: ours must stay silent until the other one has answered."""
    cancel, results = threading.Event(), {}

    def ask():
        try:
            ours.get_assertion("example.com", challenge(), [descriptor(owned)], options={"uv": True}, event=cancel)
            results["ours"] = 0
        except CtapError as error:
            results["ours"] = error.code

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(2)
    assert thread.is_alive(), "our device answered a request for another device's credential"
    check(owned, theirs, [descriptor(owned)])
    cancel.set()
    thread.join()
    assert results["ours"] == CtapError.ERR.KEEPALIVE_CANCEL, results


step("unknown credential: the second device completes the login", 0, both)


def cancelled():
    """Cancels while the prompt is open."""
    open(os.path.expanduser("~/choice"), "w").write("wait\n")
    cancel = threading.Event()
    threading.Timer(5, cancel.set).start()
    try:
        ours.get_assertion("example.com", challenge(), [descriptor(first)], options={"uv": True}, event=cancel)
    finally:
        open(os.path.expanduser("~/choice"), "w").write("use\n")


step("cancel", CtapError.ERR.KEEPALIVE_CANCEL, cancelled)
