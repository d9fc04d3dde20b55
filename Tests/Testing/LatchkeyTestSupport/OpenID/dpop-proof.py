"""Checks or makes a DPoP proof (RFC 9449) with joserfc, for the tests.

Reads one JSON object from stdin. With the member `proof`: checks it for `method`, `url`, `now` and, unless they are null,
`token` and `nonce`, as section 4.3 requires, and prints the thumbprint of its key. Otherwise makes a proof with a new key for
the same members, and prints it.
"""

import base64
import hashlib
import json
import secrets
import sys
import urllib.parse

from joserfc import jws
from joserfc.jwk import ECKey


def digest(token):
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()


def check(request):
    found = jws.extract_compact(request["proof"].encode())
    header = found.headers()
    assert header["typ"] == "dpop+jwt" and header["alg"] == "ES256", header
    key = ECKey.import_key(header["jwk"])
    assert not key.is_private, "the key is private"
    claims = json.loads(jws.deserialize_compact(request["proof"], key, algorithms=["ES256"]).payload)
    url = urllib.parse.urlsplit(request["url"])
    assert claims["htm"] == request["method"], claims
    assert claims["htu"] == urllib.parse.urlunsplit((url.scheme, url.netloc, url.path, "", "")), claims
    assert abs(claims["iat"] - request["now"]) <= 5, claims
    assert len(claims["jti"]) >= 22, claims
    assert claims.get("ath") == (request["token"] and digest(request["token"])), claims
    assert claims.get("nonce") == request["nonce"], claims
    return key.thumbprint()


def make(request):
    key = ECKey.generate_key("P-256")
    claims = {"jti": secrets.token_urlsafe(16), "htm": request["method"], "htu": request["url"], "iat": request["now"]}
    if request["token"]:
        claims["ath"] = digest(request["token"])
    if request["nonce"]:
        claims["nonce"] = request["nonce"]
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    return jws.serialize_compact(header, json.dumps(claims), key, algorithms=["ES256"])


request = json.load(sys.stdin)
print(check(request) if "proof" in request else make(request))
