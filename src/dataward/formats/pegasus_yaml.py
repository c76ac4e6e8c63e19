"""Reads Pegasus 5 abstract workflows: YAML with jobs, and dependencies from parent to children."""

from collections.abc import Iterator

from dataward.errors import FormatError
from dataward.formats.pegasus_catalogs import Catalogs, Edition, Placed, Transformation
from dataward.formats.pegasus_job import PegasusJob, order, placed, size_bytes
from dataward.formats.yaml_events import YamlEvents, YamlNode
from dataward.model.builder import WorkflowBuilder
from dataward.model.names import check_name

_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "output"}


def read_pegasus_yaml(chunks: Iterator[bytes], source: str) -> WorkflowBuilder:
    """The workflow as declared in Pegasus 5 YAML."""
    return _PegasusReader(YamlEvents(chunks, source), source).read()


class _PegasusReader:
    def __init__(self, events: YamlEvents, source: str) -> None:
        self.events = events
        self.source = source
        self.builder = WorkflowBuilder()
        self.catalogs = Catalogs()
        self.contained = 0
        self.env: dict[str, str] = {}  # of all jobs
        self.jobs: list[PegasusJob] = []
        self.used: set[str] = set()
        self.sizes: list[tuple[int, str, str]] = []
        self.edges: list[tuple[int, str, str]] = []

    def read(self) -> WorkflowBuilder:
        """The workflow. Sections come in any order, so jobs are added after all of them."""
        self.events.open_document()
        seen = []
        for key in self.events.keys("the workflow"):
            seen.append(key)
            self.section(key)
        self.events.close_document()
        if "jobs" not in seen:
            problem = "is YAML, but not a Pegasus workflow: it has no 'jobs'"
            raise FormatError(self.source, problem)
        for job in self.jobs:
            job.env = {**self.env, **job.env}
            job.add_to(self.builder, self.catalogs)
        for line, parent, child in self.edges:
            order(self.builder, self.source, line, parent, child)
        for line, file, text in self.sizes:
            if file in self.used:
                self.size(file, text, line)
        for file in self.catalogs.replicas:
            if file in self.used and (path := self.catalogs.path_of(file)):
                self.builder.file(file, path=path)
        if self.contained:
            self.builder.warn(
                f"{self.contained} of its programs are meant to run in containers, which is left "
                "to 'dataward run --wrap'"
            )
        return self.builder

    def section(self, key: str) -> None:
        events = self.events
        if key == "name":
            node = events.node()
            name = self.text(node, "the workflow's name")
            with placed(self.source, node.line):
                check_name("workflow", name)
            self.builder.name = name
        elif key == "jobs":
            for node in events.items("'jobs'"):
                self.job(node)
        elif key == "jobDependencies":
            for node in events.items("'jobDependencies'"):
                self.dependency(node)
        elif key == "replicaCatalog":
            self.replicas(events.node())
        elif key == "transformationCatalog":
            self.transformations(events.node())
        elif key == "profiles":
            self.env = self.variables({"profiles": events.node()})
        else:
            events.skip()

    def job(self, node: YamlNode) -> None:
        fields = self.mapping(node, "a job")
        id = self.text(fields.get("id"), "a job's id", node.line)
        label = fields.get("name") or fields.get("file")  # a sub-workflow has only a file
        job = PegasusJob(
            self.source,
            node.line,
            id,
            self.text(label, "a job's name") if label else id,
            self.edition(fields),
        )
        if "arguments" in fields:
            # Pegasus joins arguments with blanks before it runs them.
            words = self.elements(fields["arguments"], "arguments")
            job.arguments = " ".join(self.text(word, "an argument") for word in words)
        for use in self.elements(fields.get("uses"), "uses"):
            self.use(job, use)
        for key, link in _STREAMS.items():
            if key in fields:
                job.streams[key] = self.text(fields[key], key)
                self.uses_file(job, job.streams[key], link, fields[key].line)
        self.profiles(job, fields.get("profiles"))
        self.jobs.append(job)

    def use(self, job: PegasusJob, node: YamlNode) -> None:
        fields = self.mapping(node, "a used file")
        file = self.text(fields.get("lfn"), "a used file's lfn", node.line)
        link = fields.get("type")
        self.uses_file(job, file, self.text(link, "type") if link else "", node.line)
        size = fields.get("size") or self.metadata_size(fields)
        if size and file in self.used:
            self.size(file, self.text(size, "size"), size.line)

    def uses_file(self, job: PegasusJob, file: str, link: str, line: int) -> None:
        job.use(file, link, line)
        if file in job.inputs[-1:] or file in job.outputs[-1:]:
            self.used.add(file)

    def size(self, file: str, text: str, line: int) -> None:
        with placed(self.source, line):
            self.builder.file(file, size_bytes(self.source, line, text))

    def metadata_size(self, fields: dict[str, YamlNode]) -> YamlNode | None:
        metadata = fields.get("metadata")
        return self.mapping(metadata, "metadata").get("size") if metadata else None

    def profiles(self, job: PegasusJob, node: YamlNode | None) -> None:
        if node is None:
            return
        for namespace, entries in self.mapping(node, "profiles").items():
            if namespace.lower() not in ("pegasus", "dagman", "env"):
                continue
            for key, value in self.mapping(entries, "a profile").items():
                if isinstance(value.value, str):
                    job.profile(namespace, key, value.value, value.line)

    def dependency(self, node: YamlNode) -> None:
        fields = self.mapping(node, "a dependency")
        parent = self.text(fields.get("id"), "a dependency's id", node.line)
        for child in self.elements(fields.get("children"), "children"):
            self.edges.append((child.line, parent, self.text(child, "a child's id")))

    def replicas(self, node: YamlNode) -> None:
        catalog = self.mapping(node, "'replicaCatalog'")
        for replica in self.elements(catalog.get("replicas"), "replicas"):
            fields = self.mapping(replica, "a replica")
            size = fields.get("size") or self.metadata_size(fields)
            file = self.optional(fields, "lfn")
            if not file or self.optional(fields, "regex").lower() == "true":
                continue
            if size:
                self.sizes.append((size.line, file, self.text(size, "size")))
            for pfn in self.elements(fields.get("pfns"), "pfns"):
                self.place(self.catalogs.replica(file), self.mapping(pfn, "a pfn"), "site")

    def transformations(self, node: YamlNode) -> None:
        catalog = self.mapping(node, "'transformationCatalog'")
        for entry in self.elements(catalog.get("transformations"), "transformations"):
            fields = self.mapping(entry, "a transformation")
            found = Transformation(self.optional(fields, "name"), self.edition(fields))
            found.env = self.variables(fields)
            for site in self.elements(fields.get("sites"), "sites"):
                of_site = self.mapping(site, "a site")
                self.place(found.placed, of_site, "name")
                found.site_env[self.optional(of_site, "name")] = self.variables(of_site)
                self.contained += "container" in of_site
            self.catalogs.add(found)

    def place(self, entry: Placed, fields: dict[str, YamlNode], site: str) -> None:
        entry.add(self.optional(fields, site), self.optional(fields, "pfn"))

    def variables(self, fields: dict[str, YamlNode]) -> dict[str, str]:
        """The environment variables among the profiles."""
        if "profiles" not in fields:
            return {}
        found = self.mapping(fields["profiles"], "profiles").get("env")
        values = self.mapping(found, "a profile") if found else {}
        return {key: self.text(value, "a variable") for key, value in values.items()}

    def edition(self, fields: dict[str, YamlNode]) -> Edition:
        return self.optional(fields, "namespace"), self.optional(fields, "version")

    def optional(self, fields: dict[str, YamlNode], key: str) -> str:
        return self.text(fields[key], key) if key in fields else ""

    def text(self, node: YamlNode | None, what: str, line: int = 0) -> str:
        if node is None:
            raise self.error(f"{what} is missing", line)
        if not isinstance(node.value, str):
            raise self.error(f"{what} should be text", node.line)
        return node.value

    def mapping(self, node: YamlNode, what: str) -> dict[str, YamlNode]:
        if not isinstance(node.value, dict):
            raise self.error(f"{what} should be a mapping", node.line)
        return node.value

    def elements(self, node: YamlNode | None, what: str) -> list[YamlNode]:
        if node is None or node.value in ("", "null", "~"):
            return []
        if not isinstance(node.value, list):
            raise self.error(f"{what} should be a list", node.line)
        return node.value

    def error(self, problem: str, line: int) -> FormatError:
        return FormatError(self.source, problem, place=f"line {line}")
