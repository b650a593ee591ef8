"""TLS before a real Elasticsearch, which has none itself here: a forwarder with certificates made for the test."""

import hashlib
import ssl
from pathlib import Path

import trustme
from trustme import LeafCert


def fingerprint(pem: bytes) -> str:
    """Return the SHA-256 of a certificate as Elasticsearch prints it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()


class Authority:
    """An authority that signs, whose certificate servers send along with their own, as Elasticsearch does."""

    def __init__(self, folder: Path) -> None:
        """Keep the certificate in a file of the folder."""
        self.ca = trustme.CA()
        self.path = str(folder / "authority.pem")
        self.ca.cert_pem.write_to_path(self.path)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its certificate."""
        return fingerprint(self.ca.cert_pem.bytes())

    def server(self, leaf: LeafCert) -> ssl.SSLContext:
        """Return what a server with this certificate shows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        chain = b"".join(blob.bytes() for blob in (*leaf.cert_chain_pems, self.ca.cert_pem))
        with trustme.Blob(leaf.private_key_pem.bytes() + chain).tempfile() as path:
            context.load_cert_chain(path)
        return context
