"""Parquet files of less than two kilobytes whose texts unpack to 2 GB: a thousand times the same 2 MB in DELTA_BYTE_ARRAY.

DuckDB does not write that encoding, so pyarrow 26 made the files, which the tests do not need. They are packed and in base64.
"""

import base64
import zlib

_TRACE = """
eNoLcAwyFGUQnTXrC6PoNiYd0Qv8onyibKJsMgwMDBpb9f82ePS2yTFMYWJgYWEGCl3gZ2xgZHnBzsAgCuQ1tMgxgLkNk74w/p8INAIIgOITLjALVTk48X
u8YOS0VVjIrvIFqLKCheH93wq9NeKcQc3BuglcR5gYBCrIwdkmLBWiLKICoko+okyiDEIQhypwODLAAdBHYqIaYN8IIPtGgTuSgQHqD8YL/Aw4jJk1EwR2
2lNoDAM4iPQciTdGMsaUQYKtODkjNTdRlINBlEeVSYInOT+vJDEzL7UoPjNFlcEHpFuUCyjBXZKZm1pckphbEF8MEeFMLiiNT84vSoXyeXJTc/OLKuOTKk
uAQmIX+CVlJH3UGGREeSRV2fgkUY0W5QEqEDsFTAhiz5jUODxlgM7mE2VisBEDxa4km6Qa0J1Au0H6uSRNGdgEJFGcANGfJdbHqLaGWe0dk6YOMFgYgAYA
CQGQOZpYjUC4GcmAXSxqf5iJNADFk0hmnGBV62LFY4ZYx1ygVy/wq3GITWBj0FAoSCwqLE0t0U0uKNBNLCrKL1coSy0qzszPUzAy0zPQM5QEhTwcMaxlZG
AIAGYeAEgUrJQ=
"""
_INCIDENT = """
eNq9lU1oE0EUx99MNptPsiEwa1aWGIMdGmiiEetBFFpPFXIo1YuIxG2ysbH5WJNNTRUhqJQiKFXEQ+mhiifpSbAHz9KDpxw8eBQP0puXXIvOfqTZkIrRgs
Puwpt5v/+8ee8NOzs9lyEc8RM5SzCBCMD4+5N7cXcSAAGAToCIZHyCdAQSJjzhZbA9AlcBXMzoCAh1BGAaXnJ0QIM7Dub4C4kwSQxIeKdhf/x/GSCRLPvs
yxgZYTZTPwA39rBwOBwLZH29i8g2Nh1DTsf2zJOVGLzAwHF2pG3E7XoMCKD9KAam2X7eRT+fMQk22PxaxxW5O3VRmNlFvgvxV54TXebZ4uDHXiu9dcQ39/
By6ob/I4Zw61/exTNc65CpCpLYQLX4DABmy9euj14raWsSonwjv6BWFBIBEhzDUbde00r5McgaGMFsxqcpdb2kl2pVhjCbrxWLDVW3jICiaWq1oBZylYYl
4FpUl3u4YfuYnZtf1lV73b2klJuq0yNgzjh9PAuqUlDrDdtL7AiSLG1QkElQmgQ+LNlhkiBbEgviKqJT1JucMHOKrRxiOG9wvETNlIFBY5vuH8lSmBdXEN
1BdA0NaSQHBDhbwM6BRd8SnyL6GdOXeETamTSHxDcXfeP6g0Tv/EaWLfSK2KJfOfqOGz4+GKc30QG2X5G+whc3feseQWGMD0l2CS34E7t24ndMX/OXZIaF
TMy4TNKBcTtr3d9920dXfSPH3+sOiy+KjxH94Kdt/7DA5rF+FOLOJou0I1Cv+CAAkhwVmuWyclNNl6r5UkGt6tHgvUSxVq8oeuJc5j5E46xJbjdVPZXXtJ
RSr9fuxJfYrqxp4qfPpk+lM9IGa87fPZBjV22W/Sd+AW/cG1E=
"""


def trace() -> bytes:
    """A usage trace; its column `container_id` is the large one."""
    return zlib.decompress(base64.b64decode(_TRACE))


def incident() -> bytes:
    """An incident file; its column `value` is the large one."""
    return zlib.decompress(base64.b64decode(_INCIDENT))
