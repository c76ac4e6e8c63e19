"""What Pegasus's catalogs inside a workflow say: where programs and inputs are on this machine.

An entry has a physical file name (``pfn``) for each of several sites. The one for the site
``local`` is used, else the first that is a path; others, such as ``gsiftp://...``, never are.
"""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

LOCAL = "local"

Edition = tuple[str, str]
"""The namespace and the version of a program; either may be ""."""


def local_path(pfn: str) -> str:
    """The path that a physical file name stands for, or "" if it is not one of this machine."""
    if "://" not in pfn:
        return pfn
    url = urlsplit(pfn)
    return unquote(url.path) if url.scheme == "file" and url.netloc in ("", "localhost") else ""


@dataclass(slots=True)
class Placed:
    """An entry of a catalog while it is read: a path for each site that has one."""

    paths: dict[str, str] = field(default_factory=dict)

    def add(self, site: str, pfn: str) -> None:
        path = local_path(pfn)
        if path:
            self.paths.setdefault(site, path)

    @property
    def site(self) -> str:
        """The site whose path is used."""
        return LOCAL if LOCAL in self.paths else next(iter(self.paths), "")

    @property
    def path(self) -> str:
        return self.paths.get(self.site, "")


@dataclass(slots=True)
class Transformation:
    """A program by its logical name: where it is, and variables for all sites and for each."""

    name: str
    edition: Edition
    placed: Placed = field(default_factory=Placed)
    env: dict[str, str] = field(default_factory=dict)
    site_env: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        return {**self.env, **self.site_env.get(self.placed.site, {})}


@dataclass(slots=True)
class Catalogs:
    transformations: dict[str, list[Transformation]] = field(default_factory=dict)  # by name
    replicas: dict[str, Placed] = field(default_factory=dict)

    def add(self, transformation: Transformation) -> None:
        self.transformations.setdefault(transformation.name, []).append(transformation)

    def transformation(self, name: str, edition: Edition) -> Transformation | None:
        """The first of that name; a namespace or version that is given must be its own too."""
        for found in self.transformations.get(name, ()):
            if all(asked in ("", own) for asked, own in zip(edition, found.edition, strict=True)):
                return found
        return None

    def replica(self, file: str) -> Placed:
        """The entry of a file, new if need be."""
        return self.replicas.setdefault(file, Placed())

    def path_of(self, file: str) -> str:
        """Where a file is on this machine, or "" if nothing says so."""
        found = self.replicas.get(file)
        return found.path if found else ""
