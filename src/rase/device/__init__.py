"""The device agent: takes readings, randomizes them within the owner's budget, and sends them.

The way of a reading::

    sources      where readings come from, one file a source
    collection   readings of one round become one mean, in memory alone
    terms        which campaign and keys the owner's rules admit
    reporter     the mean becomes noise, the noise an envelope, paid for in the ledger
    outbox       the envelope is sent at a random moment, the same bytes until acknowledged
    agent        one step of all this after the other, by the clock that it is given
    folder       what lies on the disk: settings, keys, state (memory holds it), ledger
    program      all of it put together from a folder, and run
    page, home   what the owner sees and decides: in a browser, on the broker at home

Nothing here imports NumPy, a web framework or an HTTP library other than the standard one.
"""
