"""Runs a Canaille server on a free port, with one user and one client, for the tests of credentials.

When it is ready, it prints one line of JSON: the issuer, the client's ID and secret, and the token endpoint's response to a
login. Then it prints the line `token` to stderr for each request to the token endpoint, and delays each response by the number
of seconds in the first argument.
"""

import base64
import datetime
import hashlib
import http.client
import json
import logging
import secrets
import socket
import sys
import threading
import time
import urllib.parse

from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend

logging.disable(logging.CRITICAL)
delay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

key = RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, auto_kid=True)
issuer = f"http://127.0.0.1:{port}"
app = create_app(
    {
        "SECRET_KEY": secrets.token_urlsafe(32),
        "SERVER_NAME": f"127.0.0.1:{port}",
        "PREFERRED_URL_SCHEME": "http",
        "CANAILLE": {"DATABASE": "memory", "LOGGING": {"version": 1}},
        "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)], "REQUIRE_NONCE": False},
    }
)
inner = app.wsgi_app


is_ready = threading.Event()


def counted(environ, start_response):
    if environ["PATH_INFO"] == "/oauth/token" and is_ready.is_set():
        print("token", file=sys.stderr, flush=True)
        time.sleep(delay)
    return inner(environ, start_response)


app.wsgi_app = counted
now = datetime.datetime.now(datetime.timezone.utc)
verifier, code = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
client_id, client_secret = "latchkey", secrets.token_urlsafe(24)
redirect_uri = "http://127.0.0.1/callback"

with app.app_context(), Backend.instance.session():
    user = models.User(
        formatted_name="Jane Doe", family_name="Doe", given_name="Jane", user_name="jane", emails=["jane@example.com"]
    )
    Backend.instance.save(user)
    client = models.Client(
        client_id=client_id,
        client_secret=client_secret,
        client_name="Latchkey",
        client_uri=issuer,
        redirect_uris=[redirect_uri],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=["openid", "profile", "email", "offline_access"],
        token_endpoint_auth_method="client_secret_basic",
        client_id_issued_at=now,
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)
    Backend.instance.save(
        models.AuthorizationCode(
            authorization_code_id=secrets.token_urlsafe(8),
            code=code,
            client=client,
            subject=user,
            redirect_uri=redirect_uri,
            response_type="code",
            scope=["openid", "profile", "email", "offline_access"],
            nonce="n",
            issue_date=now,
            lifetime=600,
            challenge=base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("="),
            challenge_method="S256",
        )
    )

server = make_server("127.0.0.1", port, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
connection = http.client.HTTPConnection("127.0.0.1", port)
basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
connection.request(
    "POST",
    "/oauth/token",
    urllib.parse.urlencode(
        {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    ),
    {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"},
)
answer = json.loads(connection.getresponse().read())
is_ready.set()
print(json.dumps({"issuer": issuer, "clientID": client_id, "clientSecret": client_secret, "answer": answer}), flush=True)
threading.Event().wait()
