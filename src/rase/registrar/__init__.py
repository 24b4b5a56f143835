"""The registrar: certifies devices, and gives each the tokens that its reports need, blindly.

It learns who takes part and when tokens are fetched; no report, no round, and no token it could
recognise. Its operator must not be the shuffler's.

::

    devices    who may have tokens: approvals, certificates, revocation
    issuing    the keys of token windows, and signing what devices ask for
    upkeep     makes keys ahead and has the shuffler countersign them
    app        the routes
    settings   what its operator decides
    program    everything put together
"""
