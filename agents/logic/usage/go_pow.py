"""Powers as Go computes them: the start of a histogram bucket is a power, and a last bit moved is a byte of recommendation.

Repeated squaring of the mantissa, exponents summed apart, a negative power inverted before the two are joined. libm's pow is
closer to the truth; upstream's numbers come from this.
"""

import numpy as np
from numpy.typing import NDArray


def power(base: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """base^exponent, element by element, for positive bases (infinity included) and whole exponents."""
    if exponent == 0:
        return np.ones_like(base)
    if exponent == 1:
        return base
    finite = np.isfinite(base)
    mantissa, scale = np.frexp(np.where(finite, base, 1.0))
    result, power_of_two = np.ones_like(mantissa), np.zeros_like(scale)
    left = abs(exponent)
    while left:
        if left & 1:
            result, power_of_two = result * mantissa, power_of_two + scale
        mantissa, scale = mantissa * mantissa, scale * 2
        small = mantissa < 0.5  # noqa: PLR2004  # frexp keeps mantissas in [0.5, 1)
        mantissa, scale = np.where(small, mantissa * 2, mantissa), scale - small
        left >>= 1
    if exponent < 0:
        result, power_of_two = 1.0 / result, -power_of_two
    return np.where(finite, np.ldexp(result, power_of_two), 0.0 if exponent < 0 else np.inf)
