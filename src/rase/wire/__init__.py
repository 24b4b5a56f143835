"""Bytes that leave a process: campaign and keys, report, batch, manifest, problems.

The way of a report::

    messages   what is written: header, inner plaintext, batch, manifest
    keys       who may open it: keyset, private keys and their files
    suites     how it is sealed: HPKE suites by number
    seal       the device puts a report into two envelopes (pure does so without a wheel)
    outer      the shuffler opens the outer one; nobody else may import it
    inner      the fusion centre opens the inner one; nobody else may import it
    signed     what both servers sign, and how a device checks it (ed25519 without a wheel)
    frames     how reports and answers go through a broker that is not trusted
    parcel     how a batch goes to the fusion centre, its manifest ahead of it
    cbor       deterministic CBOR, the form of everything that is signed or hashed
    problems   how a refusal is sent to the other side

The bytes are described in docs/reference/wire-format.md, with test vectors.
"""
