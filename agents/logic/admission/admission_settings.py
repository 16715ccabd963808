"""What an operator sets for admission."""

from dataclasses import dataclass

from schemas.exact_quantity import ZERO, Quantity


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Upstream's feature gates, all off as there, and `--max-allowed-cpu-boost`, which is no bound while it is zero."""

    cpu_startup_boost: bool = False
    per_vpa_config: bool = False
    in_place: bool = False
    most_boosted_cpu: Quantity = ZERO
    largest: int = 5 * 1024 * 1024
    """Bytes of a review that are read; upstream's bound."""
