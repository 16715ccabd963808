"""How long tests wait for what must come. A bound ends a test that would wait for ever; it says nothing about speed.

Those who write a test write what a machine with nothing else to do needs, with room; a loaded one may take three times as long.
"""

from typing import Final

SLOWER: Final = 3.0
