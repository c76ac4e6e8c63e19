"""Reads Pegasus DAX 2 and 3: XML, element by element, without building a tree.

DAX 2 names a file by ``file=``, DAX 3 by ``name=``; both list jobs first and edges last.
"""

from collections.abc import Callable, Iterator
from xml.parsers import expat

from dataward.errors import FormatError, UnknownParentError, WorkflowError
from dataward.formats.pegasus_catalogs import Catalogs, Transformation
from dataward.formats.pegasus_job import PegasusJob, order, quantity, size_bytes
from dataward.model.builder import WorkflowBuilder

DEPTH_MAX = 64  # a DAX needs five levels
_JOBS = ("job", "dag", "dax")
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "output"}
_FILE_NAMES = ("file", "name")

Attributes = dict[str, str]


def read_dax(chunks: Iterator[bytes], source: str) -> WorkflowBuilder:
    """The workflow as declared in DAX XML."""
    return _DaxReader(source).read(chunks)


class _DaxReader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.builder = WorkflowBuilder()
        self.job: PegasusJob | None = None
        self.catalogs = Catalogs()
        self.executable: Transformation | None = None
        self.child = ""
        self.file = ""  # the file that an enclosed <metadata> describes
        self.path: list[str] = []
        self.text: list[str] | None = None
        self.attributes: Attributes = {}
        self.sizes: dict[str, int] = {}
        # The Pegasus generator draws sizes and run times from normal distributions, so a few are
        # negative, as in Epigenomics_997.
        self.negative_sizes = 0
        self.negative_runtimes = 0
        self.early_edges: list[tuple[int, str, str]] = []
        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.on_text
        self.expat.StartDoctypeDeclHandler = self.refuse_doctype
        self.on_start: dict[str, Callable[[Attributes], None]] = {
            "uses": self.on_uses,
            "child": self.on_child,
            "parent": self.on_parent,
            "filename": self.on_file,
            "file": self.on_file,
            "executable": self.on_executable,
            "pfn": self.on_pfn,
            **dict.fromkeys(_JOBS, self.on_job),
            **dict.fromkeys(_STREAMS, self.on_stream),
        }

    def read(self, chunks: Iterator[bytes]) -> WorkflowBuilder:
        try:
            for chunk in chunks:
                self.expat.Parse(chunk, False)
            self.expat.Parse(b"", True)
        except WorkflowError as error:
            raise self.error(str(error)) from error
        except expat.ExpatError as error:
            problem = f"is not well-formed XML ({expat.ErrorString(error.code)})"
            raise FormatError(self.source, problem, place=f"line {error.lineno}") from error
        except (ValueError, LookupError) as error:  # from an encoding that Python cannot map
            raise FormatError(
                self.source, "is in an unusual character encoding", remedy="save it as UTF-8"
            ) from error
        for line, parent, child in self.early_edges:
            order(self.builder, self.source, line, parent, child)
        if self.negative_sizes:
            self.builder.warn(f"{self.negative_sizes} negative file sizes count as unknown")
        if self.negative_runtimes:
            self.builder.warn(f"{self.negative_runtimes} negative run times count as 0")
        return self.builder

    @property
    def line(self) -> int:
        return self.expat.CurrentLineNumber

    def error(self, problem: str, remedy: str = "") -> FormatError:
        return FormatError(self.source, problem, place=f"line {self.line}", remedy=remedy)

    def refuse_doctype(self, *_: object) -> None:
        # No DAX has a DOCTYPE, and its entities could expand without end or fetch other files.
        raise self.error("declares a DOCTYPE, which a DAX never needs", "remove it")

    def start(self, tag: str, attributes: Attributes) -> None:
        tag = tag.rpartition(":")[2]
        if not self.path:
            self.on_root(tag, attributes)
        elif len(self.path) >= DEPTH_MAX:
            raise self.error("is nested too deeply for a workflow")
        self.path.append(tag)
        if handle := self.on_start.get(tag):
            handle(attributes)
        elif tag == "argument" or (tag in ("metadata", "profile") and "key" in attributes):
            self.text = []
            self.attributes = attributes

    def on_root(self, tag: str, attributes: Attributes) -> None:
        if tag != "adag":
            raise self.error(
                f"is XML, but its root is <{tag[:40]}>", "a Pegasus DAX begins with <adag>"
            )
        if name := attributes.get("name"):
            self.builder = WorkflowBuilder(name)

    def on_job(self, attributes: Attributes) -> None:
        if self.job is not None:
            raise self.error("has a job inside another job")
        id = attributes.get("id", "")
        name = attributes.get("name") or attributes.get("file") or id
        edition = (attributes.get("namespace", ""), attributes.get("version", ""))
        self.job = PegasusJob(self.source, self.line, id, name, edition)
        if "runtime" in attributes:
            runtime = quantity(self.source, self.line, "run time", attributes["runtime"])
            self.job.runtime_seconds = max(runtime, 0.0)
            self.negative_runtimes += runtime < 0

    def on_uses(self, attributes: Attributes) -> None:
        if self.job is None:  # here <uses> names an executable of a <transformation>
            return
        file = self.file = self.name_of_file(attributes)
        link = attributes.get("link", "")
        self.job.use(file, link, self.line)
        if link and "size" in attributes:
            self.on_size(size_bytes(self.source, self.line, attributes["size"]))
        elif link and file in self.sizes:
            self.on_size(self.sizes[file])
        if link:
            self.locate(file)

    def on_stream(self, attributes: Attributes) -> None:
        if self.job is not None:
            stream, file = self.path[-1], self.name_of_file(attributes)
            self.job.streams[stream] = file
            self.job.use(file, _STREAMS[stream], self.line)
            self.locate(file)

    def locate(self, file: str) -> None:
        if path := self.catalogs.path_of(file):
            self.builder.file(file, path=path)

    def on_file(self, attributes: Attributes) -> None:
        name = self.name_of_file(attributes)
        if self.text is not None:
            self.text.append(name)
        else:
            self.file = name

    def on_executable(self, attributes: Attributes) -> None:
        edition = (attributes.get("namespace", ""), attributes.get("version", ""))
        self.executable = Transformation(attributes.get("name", ""), edition)
        self.catalogs.add(self.executable)

    def on_pfn(self, attributes: Attributes) -> None:
        within = self.path[-2] if len(self.path) > 1 else ""
        entry = None
        if within == "executable" and self.executable is not None:
            entry = self.executable.placed
        elif within == "file" and self.job is None:
            entry = self.catalogs.replica(self.file)
        if entry is not None:
            entry.add(attributes.get("site", ""), attributes.get("url", ""))

    def name_of_file(self, attributes: Attributes) -> str:
        for key in _FILE_NAMES:
            if key in attributes:
                return attributes[key]
        raise self.error(f"<{self.path[-1]}> names no file")

    def on_child(self, attributes: Attributes) -> None:
        self.child = self.reference(attributes)

    def on_parent(self, attributes: Attributes) -> None:
        parent = self.reference(attributes)
        try:
            self.builder.order(parent, self.child)
        except UnknownParentError:  # the child's job may come later in the document
            self.early_edges.append((self.line, parent, self.child))

    def reference(self, attributes: Attributes) -> str:
        if "ref" not in attributes:
            raise self.error(f"<{self.path[-1]}> has no ref")
        return attributes["ref"]

    def on_text(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def end(self, tag: str) -> None:
        tag = self.path.pop()
        if tag in _JOBS and self.job is not None:
            self.job.add_to(self.builder, self.catalogs)
            self.job = None
        elif tag == "executable":
            self.executable = None
        elif self.text is not None and tag in ("argument", "metadata", "profile"):
            self.on_content(tag, "".join(self.text))
            self.text = None

    def on_content(self, tag: str, text: str) -> None:
        key = self.attributes.get("key", "")
        if tag == "metadata":
            if key == "size" and self.path[-1] in ("uses", "file"):
                self.on_size(size_bytes(self.source, self.line, text))
        elif self.job is not None:
            if tag == "argument":
                self.job.arguments = text
            else:
                self.job.profile(self.attributes.get("namespace", ""), key, text, self.line)
        elif self.executable is not None and self.attributes.get("namespace") == "env":
            self.executable.env[key] = text

    def on_size(self, size: int) -> None:
        if size < 0:
            self.negative_sizes += 1
        elif self.job is not None:
            self.builder.file(self.file, size)
        else:  # the list of files before the jobs: a file that no job uses is not in the workflow
            self.sizes[self.file] = size
