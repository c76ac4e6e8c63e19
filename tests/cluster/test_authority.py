"""The cluster's own authority: what its certificates say, and what cannot be used."""

import ssl

import pytest
from cryptography import x509

from conformance.remote_world import authority
from dataward.errors import SettingError
from dataward.live.credentials import Credentials, Role, check_listening, roles_in


def test_a_certificate_is_issued_for_its_roles_and_no_others():
    issued = authority().issue("n1", [Role.NODE, Role.READ])

    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node.dataward", "read.dataward"]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_roles_are_read_from_what_ssl_tells_of_a_certificate():
    told = {"subjectAltName": (("DNS", "node.dataward"), ("DNS", "else"), ("URI", "read.dataward"))}

    assert roles_in(told) == {Role.NODE}
    assert roles_in({}) == roles_in(None) == frozenset()


def test_keys_are_not_shown():
    issued = authority().issue("n1", [Role.NODE])

    assert "PRIVATE" in issued.key
    assert "PRIVATE" not in repr(issued) + repr(authority())


def test_contexts_let_in_nobody_without_a_certificate_and_nothing_old():
    for context in (
        authority().issue("n1", [Role.NODE]).server_context(),
        authority().issue("n1", [Role.NODE]).client_context(),
    ):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_key_that_does_not_fit_its_certificate_is_refused():
    one, other = (authority().issue("n1", [Role.NODE]) for _ in range(2))

    with pytest.raises(SettingError, match="the certificates cannot be used"):
        Credentials(one.authority, one.certificate, other.key).server_context()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_listening_beyond_this_machine_needs_credentials(host):
    with pytest.raises(SettingError, match="needs credentials"):
        check_listening(host, None)
    check_listening(host, authority().issue("n1", [Role.NODE]))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_listening_on_this_machine_needs_none(host):
    check_listening(host, None)
