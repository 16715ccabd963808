"""How the types of deploy/crds show themselves to kubectl."""

from pathlib import Path

import pytest
import yaml

CRDS = Path(__file__).parents[2] / "deploy/crds"


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_type_has_a_short_name_the_category_autoscaling_and_columns(path: Path) -> None:
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    assert spec["names"]["shortNames"]
    assert "autoscaling" in spec["names"]["categories"]
    for version in spec["versions"]:
        assert len(version["additionalPrinterColumns"]) > 2
        assert version["additionalPrinterColumns"][-1] == {
            "name": "Age",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
        }
