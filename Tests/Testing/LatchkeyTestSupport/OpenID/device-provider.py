"""Runs an OpenID provider with Authlib's device authorization grant (RFC 8628) on a free port, for the tests of such logins.

When it is ready, it prints its address. The page of the user, jane, decides at once: `/device?user_code=CODE&allow=1`, or with
`allow=0` for a refusal. The first argument is the interval between requests in seconds, the second the lifetime of the codes.
"""

import hashlib
import os
import sys
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from flask import Flask, jsonify, request
from joserfc import jwt
from joserfc.jwk import RSAKey
from joserfc.util import urlsafe_b64encode
from werkzeug.serving import make_server

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
codes, decisions, polls = {}, {}, {}
key = RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, auto_kid=True)
app = Flask("provider")
web = make_server("127.0.0.1", 0, app, threaded=True)
issuer = f"http://127.0.0.1:{web.server_port}"


class Client(ClientMixin):
    """The public client `app`."""

    def get_client_id(self):
        return "app"

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "none"

    def check_grant_type(self, grant_type):
        return True

    def get_allowed_scope(self, scope):
        return scope


def save_token(token, _):
    now = int(time.time())
    digest = hashlib.sha256(token["access_token"].encode()).digest()
    claims = {"iss": issuer, "sub": "jane", "aud": "app", "iat": now, "exp": now + 600}
    claims["at_hash"] = urlsafe_b64encode(digest[:16]).decode()
    token["id_token"] = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


class DeviceEndpoint(DeviceAuthorizationEndpoint):
    """The endpoint that issues the codes."""

    INTERVAL, EXPIRES_IN = int(sys.argv[1]), int(sys.argv[2])

    def get_verification_uri(self):
        return f"{issuer}/device"

    def save_device_credential(self, client_id, scope, data):
        expiry = time.time() + data["expires_in"]
        codes[data["device_code"]] = DeviceCredentialDict(data, client_id=client_id, scope=scope, expires_at=expiry)


class Grant(DeviceCodeGrant):
    """The grant that redeems the codes."""

    def query_device_credential(self, device_code):
        return codes.get(device_code)

    def query_user_grant(self, user_code):
        return ("jane", decisions[user_code]) if user_code in decisions else None

    def should_slow_down(self, credential):
        last = polls.get(credential["device_code"], 0)
        polls[credential["device_code"]] = time.monotonic()
        return time.monotonic() - last < credential["interval"]


server = AuthorizationServer(app, query_client=lambda name: Client() if name == "app" else None, save_token=save_token)
server.register_grant(Grant)
server.register_endpoint(DeviceEndpoint)
app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True


@app.get("/.well-known/openid-configuration")
def metadata():
    """The metadata."""
    names = {"authorization": "authorize", "userinfo": "userinfo", "revocation": "revoke", "token": "token"}
    members = {f"{name}_endpoint": f"{issuer}/{path}" for name, path in names.items()}
    members["device_authorization_endpoint"] = f"{issuer}/codes"
    return jsonify(members | {"issuer": issuer, "jwks_uri": f"{issuer}/keys"})


@app.get("/keys")
def keys():
    """The public key."""
    return jsonify({"keys": [key.as_dict(private=False)]})


@app.post("/codes")
def issue():
    """Codes for a client."""
    return server.create_endpoint_response(DeviceEndpoint.ENDPOINT_NAME)


@app.get("/device")
def decide():
    """The decision of the user."""
    decisions[request.args["user_code"]] = request.args["allow"] == "1"
    return "decided"


@app.post("/token")
def redeem():
    """Tokens for a code."""
    return server.create_token_response()


@app.get("/userinfo")
def userinfo():
    """The user."""
    return jsonify({"sub": "jane"})


@app.post("/revoke")
def revoke():
    """Every token is forgotten already."""
    return ""


server.init_app(app)
print(issuer, flush=True)
web.serve_forever()
