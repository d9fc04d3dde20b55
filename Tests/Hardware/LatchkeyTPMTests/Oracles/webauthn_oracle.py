"""Independent WebAuthn servers for the tests: py_webauthn and python-fido2.

issue   reads {"point": hex, "purpose": OID} and prints {"x5c": [base64 DER], "ca": PEM}: a certificate for a TPM's key by a new
        authority.
        It names Intel as the manufacturer, because the servers do not know the manufacturer in swtpm's certificates.
verify  reads {"object", "clientData", "challenge", "id" (base64), "ca" (PEM)} and prints what each library says.
"""
import base64, datetime, json, sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ObjectIdentifier

RP, ORIGIN = "id.example.com", "https://id.example.com"


def certificate(subject, issuer, key, signer, extensions):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
    builder = builder.not_valid_after(now + datetime.timedelta(days=30))
    for value, critical in extensions:
        builder = builder.add_extension(value, critical)
    return builder.sign(signer, hashes.SHA256())


def issue(request):
    authority = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Example AIK CA")])
    root = certificate(name, name, authority.public_key(), authority, [(x509.BasicConstraints(True, 0), True)])
    tpm = [("2.23.133.2.1", "id:494E5443"), ("2.23.133.2.2", "swtpm"), ("2.23.133.2.3", "id:20191023")]
    names = x509.Name([x509.NameAttribute(ObjectIdentifier(oid), value) for oid, value in tpm])
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(request["point"]))
    leaf = certificate(x509.Name([]), name, key, authority, [
        (x509.BasicConstraints(False, None), True),
        (x509.SubjectAlternativeName([x509.DirectoryName(names)]), True),
        (x509.ExtendedKeyUsage([ObjectIdentifier(request["purpose"])]), False),
    ])
    der = [base64.b64encode(c.public_bytes(serialization.Encoding.DER)).decode() for c in (leaf, root)]
    return {"x5c": der, "ca": root.public_bytes(serialization.Encoding.PEM).decode()}


def py_webauthn(content, ca):
    import webauthn
    from webauthn.helpers import bytes_to_base64url
    from webauthn.helpers.structs import AttestationFormat, AuthenticatorAttestationResponse, RegistrationCredential

    response = AuthenticatorAttestationResponse(
        client_data_json=content["clientData"], attestation_object=content["object"])
    credential = RegistrationCredential(
        id=bytes_to_base64url(content["id"]), raw_id=content["id"], response=response)
    result = webauthn.verify_registration_response(
        credential=credential, expected_challenge=content["challenge"], expected_rp_id=RP, expected_origin=ORIGIN,
        pem_root_certs_bytes_by_fmt={AttestationFormat.TPM: [ca.encode()]}, require_user_verification=True)
    return "verified" if result.user_verified else "not verified"


def python_fido2(content, ca):
    from fido2.attestation import AttestationVerifier
    from fido2.webauthn import AttestationObject, CollectedClientData

    root = x509.load_pem_x509_certificate(ca.encode()).public_bytes(serialization.Encoding.DER)

    class Verifier(AttestationVerifier):
        def ca_lookup(self, result, auth_data):
            return root

    Verifier().verify_attestation(AttestationObject(content["object"]), CollectedClientData(content["clientData"]).hash)
    return "verified"


def verify(request):
    content = {name: base64.b64decode(request[name]) for name in ("object", "clientData", "challenge", "id")}
    answers = {}
    for library in (py_webauthn, python_fido2):
        try:
            answers[library.__name__] = library(content, request["ca"])
        except Exception as error:  # Each library has its own errors; the test compares the text.
            answers[library.__name__] = f"{type(error).__name__}: {error}"
    return answers


print(json.dumps({"issue": issue, "verify": verify}[sys.argv[1]](json.load(sys.stdin))))
