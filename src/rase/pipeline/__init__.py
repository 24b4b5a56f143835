"""Algorithm 3 in one process, without a network: randomize, shuffle, estimate.

The one-line `aggregate`, the demonstration and the batch engines call this. In the live system the
three steps run on the device, at the shuffler and at the fusion centre; here they take the same
path.
"""

from rase.pipeline.process import Pipeline, aggregate
from rase.pipeline.result import RoundResult

__all__ = ["Pipeline", "RoundResult", "aggregate"]
