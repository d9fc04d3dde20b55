"""A relying party on http://localhost:8080 with py_webauthn, for the browser scenarios.

The page ?case=NAME&steps=create,get,… runs the ceremonies by script, without a click, and posts the results here. Prints one
line for each result.
"""
import http.server
import json
import sys
import urllib.parse

import webauthn
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria, PublicKeyCredentialDescriptor, ResidentKeyRequirement, UserVerificationRequirement)

ORIGIN, RP_ID = "http://localhost:8080", "localhost"
# Discoverable, as passkeys, or with a list.
CASES = {"passkey": ResidentKeyRequirement.REQUIRED, "finger": ResidentKeyRequirement.REQUIRED,
         "list": ResidentKeyRequirement.DISCOURAGED}
REQUIRED = UserVerificationRequirement.REQUIRED
PRF = {"prf": {"eval": {"first": bytes_to_base64url(b"salt one"), "second": bytes_to_base64url(b"salt two")}}}
registered, challenges, outputs = {}, {}, {}
page = open(sys.argv[1], "rb").read()


def say(text):
    print(text, flush=True)


def options(case, step):
    if step == "create":
        made = webauthn.generate_registration_options(
            rp_id=RP_ID, rp_name="Test", user_name=f"{case}@example.org", user_id=case.encode(),
            authenticator_selection=AuthenticatorSelectionCriteria(resident_key=CASES[case], user_verification=REQUIRED))
        extensions = {"prf": {}}
    else:
        allowed = [PublicKeyCredentialDescriptor(id=registered[case].credential_id)] if step == "get" else None
        made = webauthn.generate_authentication_options(rp_id=RP_ID, user_verification=REQUIRED, allow_credentials=allowed)
        extensions = PRF
    challenges[case] = made.challenge
    return json.loads(webauthn.options_to_json(made)) | {"extensions": extensions, "timeout": 120000}


def verify(case, step, body):
    if step == "create":
        result = webauthn.verify_registration_response(
            credential=body, expected_challenge=challenges[case], expected_rp_id=RP_ID, expected_origin=ORIGIN,
            require_user_verification=True)
        registered[case] = result
        return f"format {result.fmt}, prf {body['clientExtensionResults'].get('prf')}"
    known = next(k for k in registered.values() if k.credential_id == base64url_to_bytes(body["rawId"]))
    webauthn.verify_authentication_response(
        credential=body, expected_challenge=challenges[case], expected_rp_id=RP_ID, expected_origin=ORIGIN,
        credential_public_key=known.credential_public_key, credential_current_sign_count=known.sign_count,
        require_user_verification=True)
    # Each credential has its own outputs.
    output = body["clientExtensionResults"].get("prf")
    earlier = outputs.setdefault(body["id"], []).copy()
    outputs[body["id"]].append(output)
    if earlier:
        say("ok prf: the same outputs" if output and output == earlier[-1] else f"FAILED prf: {earlier[-1]}, {output}")
    if output and any(output in of for credential, of in outputs.items() if credential != body["id"]):
        say(f"FAILED prf: another credential has the same outputs: {output}")
    return f"user {body['response'].get('userHandle')}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        parts = urllib.parse.urlparse(self.path).path.strip("/").split("/")
        if parts[0] == "options":
            self.answer(json.dumps(options(*parts[1:3])).encode())
        else:
            self.answer(page, "text/html")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        action, *rest = self.path.strip("/").split("/")
        if action == "verify":
            try:
                say(f"ok {rest[1]}: {verify(*rest, body)}")
            except Exception as error:
                say(f"FAILED {rest[1]}: {error!r}")
        else:
            say(f"{action} {json.dumps(body)}")
        self.answer(b"{}")


http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
