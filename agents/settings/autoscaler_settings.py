"""The settings of the consumer that keeps what follows from EHPAs."""

from typing import Annotated

from pydantic import Field

from agents.settings.settings_group import SettingsGroup


class AutoscalerSettings(SettingsGroup):
    """The consumer that keeps generated autoscalers, and scales."""

    resync_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How often each EHPA is looked at, in seconds, where nothing new is known of it: somebody may have changed its HPA."""
    preview_seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    """How often one is looked at whose strategy is Preview; upstream's interval of Substitutes."""
    writers: Annotated[int, Field(ge=1, le=100)] = 8
    """EHPAs that are looked at at one time."""
    rate: Annotated[float, Field(gt=0, le=100_000)] = 20.0
    """EHPAs that are looked at in a second, on the long run; each costs some four requests."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 100
    """... and at once, after a rest."""
    label_prefixes: tuple[str, ...] = ()
    """Beginnings of labels that an EHPA hands on to its HPA; upstream's ehpa-propagation-label-prefixes."""
    labels: tuple[str, ...] = ()
    """Labels that it hands on; upstream's ehpa-propagation-labels."""
    annotation_prefixes: tuple[str, ...] = ()
    """Beginnings of annotations that it hands on; upstream's ehpa-propagation-annotation-prefixes."""
    annotations: tuple[str, ...] = ()
    """Annotations that it hands on; upstream's ehpa-propagation-annotations."""
