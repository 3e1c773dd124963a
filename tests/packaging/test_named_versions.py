"""Files beside the package name its version, that of Beam, and what is in the repository."""

import re
import tomllib

import yaml

from tests.packaging.building import ROOT


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def version() -> str:
    return re.findall(r'version="(.+)"', text("setup.py"))[0]


def test_the_citation_and_the_page_on_security_name_the_version_of_the_package() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    assert (citation["version"], citation["license"]) == (version(), "Apache-2.0")
    assert {"cff-version", "message", "title", "authors"} <= {*citation}
    assert f"`v{version()}`" in text("SECURITY.md")


def test_the_image_has_the_pinned_beam_and_all_that_the_build_needs() -> None:
    image = text("examples/container/Dockerfile")
    beam = re.findall(r"^apache-beam==(.+)$", text("constraints.txt"), re.MULTILINE)
    assert re.findall(r"^ARG BEAM=(.+)$", image, re.MULTILINE) == beam
    assert f"beam-joins:{version()}" in image
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", image, re.MULTILINE) for name in line.split()}
    assert all((ROOT / name).exists() for name in copied)
    linked = {path.readlink().name for path in (ROOT / "beam_joins").iterdir() if path.is_symlink() and path.is_dir()}
    read = {*re.findall(r'with_name\("(.+?)"\)', text("setup.py")), "setup.py", "pyproject.toml", "constraints.txt"}
    assert {*linked, *read, "beam_joins"} <= copied
    assert "version" not in tomllib.loads(text("pyproject.toml")).get("project", {}), "setup.py has it"
