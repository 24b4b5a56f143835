"""The shuffler: it knows who sends, not what: sealed. It releases rounds in a random order.

The way of a report::

    enrolment     who may send: single-use tokens, credentials kept as hashes
    documents     what was agreed: campaigns and keysets, countersigned within a policy
    proposals     what the fusion centre asks to have signed, read without a private key
    signing       the intake asks for a signature, the closer's process gives it
    own_keys      the public halves of the closer's keys, which a keyset must name
    intake        a report is checked by its header and stored, never opened
    mqtt          reports through a broker (mosquitto: its password file)
    gateway       several devices' reports in one request
    commits       concurrent reports share one commit
    rounds        which rounds are due, and who holds the lease to close one
    opening       the outer envelopes are opened, by processes where there are many
    order         the permutation, drawn once
    release       a round is closed: outbox written, payloads erased, in one transaction
    forward       the outbox is sent, identical bytes until the fusion centre has them
    closer        all that needs private keys, as a process of its own
    app           the routes; settings, what the operator decides
"""
