"""The five applications against the public Pegasus instances (``../shared/workflows/dax``)."""

import gzip
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from dataward.generate import generate, montage
from dataward.model.workflow import Workflow

DAX = Path(__file__).parents[3] / "shared" / "workflows" / "dax"
APPLICATIONS = {
    "montage": "Montage",
    "cybershake": "CyberShake",
    "epigenomics": "Epigenomics",
    "inspiral": "Inspiral",
    "sipht": "Sipht",
}
SEEDS = 8  # tasks of which there is one per workflow need several for their mean to settle
needs_dax = pytest.mark.skipif(not DAX.is_dir(), reason="the public instances are not here")


@dataclass
class Kind:
    """What was seen of one type of task."""

    seconds: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)


@dataclass
class Seen:
    kinds: dict[str, Kind] = field(default_factory=lambda: defaultdict(Kind))
    feeds: set[tuple[str, str]] = field(default_factory=set)
    counts: list[Counter[str]] = field(default_factory=list)


def read_instances(application: str) -> Seen:
    seen = Seen()
    for path in sorted(DAX.glob(f"*{APPLICATIONS[application]}*")):
        data = path.read_bytes()
        root = ElementTree.fromstring(gzip.decompress(data) if path.suffix == ".gz" else data)
        name_of = {}
        for job in root.iterfind("{*}job"):
            name = name_of[job.get("id")] = job.get("name")
            kind = seen.kinds[name]
            kind.seconds.append(float(job.get("runtime").replace(",", ".")))
            sizes = {"input": 0, "output": 0}
            for uses in job.iterfind("{*}uses"):
                sizes[uses.get("link")] += int(uses.get("size"))
            kind.read.append(sizes["input"])
            kind.written.append(sizes["output"])
        for child in root.iterfind("{*}child"):
            for parent in child:
                seen.feeds.add((name_of[parent.get("ref")], name_of[child.get("ref")]))
        seen.counts.append(Counter(name_of.values()))
    return seen


def look_at(workflows: list[Workflow]) -> Seen:
    seen = Seen()
    for workflow in workflows:
        names = workflow.task_names
        read, written = workflow.input_bytes(), workflow.output_bytes()
        for i, name in enumerate(names):
            kind = seen.kinds[name]
            kind.seconds.append(float(workflow.runtime_seconds[i]))
            kind.read.append(int(read[i]))
            kind.written.append(int(written[i]))
        for task, parents in enumerate(workflow.parents.rows()):
            seen.feeds.update((names[parent], names[task]) for parent in parents)
        seen.counts.append(Counter(names))
    return seen


@pytest.fixture(scope="module", params=APPLICATIONS)
def pair(request) -> tuple[Seen, Seen]:
    """The public instances of an application, and ours of the same sizes, of several seeds each."""
    public = read_instances(request.param)
    sizes = [counts.total() for counts in public.counts]
    ours = look_at([generate(request.param, n, seed=seed) for n in sizes for seed in range(SEEDS)])
    return public, ours


@needs_dax
def test_the_same_types_feed_each_other(pair):
    public, ours = pair

    assert set(ours.kinds) == set(public.kinds)
    assert ours.feeds == public.feeds


@needs_dax
def test_types_have_the_same_shares(pair):
    public, ours = pair

    for counts, mine in zip(public.counts, ours.counts[::SEEDS], strict=True):
        for name, count in counts.items():
            assert mine[name] / mine.total() == pytest.approx(count / counts.total(), abs=0.03)


@needs_dax
def test_run_times_have_the_same_mean_spread_and_range(pair):
    public, ours = pair

    for name, kind in public.kinds.items():
        theirs, mine = np.array(kind.seconds), np.array(ours.kinds[name].seconds)
        assert mine.mean() == pytest.approx(theirs.mean(), rel=0.25), name
        slack = 0.5 * theirs.max()
        assert theirs.min() - slack <= mine.min(), name
        assert mine.max() <= theirs.max() * (3 if len(theirs) > 200 else 2), name
        if len(theirs) > 30:
            assert mine.std() == pytest.approx(theirs.std(), rel=0.35), name


@needs_dax
def test_tasks_read_and_write_as_much(pair):
    public, ours = pair

    for name, kind in public.kinds.items():
        mine = ours.kinds[name]
        assert np.mean(mine.written) == pytest.approx(np.mean(kind.written), rel=0.3), name
        assert np.mean(mine.read) == pytest.approx(np.mean(kind.read), rel=0.3), name


@needs_dax
@pytest.mark.parametrize("application", ["montage", "epigenomics", "sipht"])
def test_the_public_sizes_have_the_public_make_up(application):
    for counts in read_instances(application).counts:
        assert Counter(generate(application, counts.total()).task_names) == counts


def parents_by_type(workflow: Workflow) -> dict[str, list[Counter[str]]]:
    found = defaultdict(list)
    for task, parents in enumerate(workflow.parents.rows()):
        found[workflow.task_names[task]].append(Counter(workflow.task_names[p] for p in parents))
    return found


@pytest.mark.parametrize("tasks", [17, 25, 50, 101, 1000, 7777])
def test_a_montage_compares_pairs_of_images(tasks):
    workflow = generate("montage", tasks, seed=2)
    images, overlaps = montage.split_count(tasks)

    parents = parents_by_type(workflow)

    assert parents["mProjectPP"] == [Counter()] * images
    assert parents["mDiffFit"] == [Counter(mProjectPP=2)] * overlaps
    assert parents["mConcatFit"] == [Counter(mDiffFit=overlaps)]
    assert parents["mBgModel"] == [Counter(mConcatFit=1)]
    assert parents["mBackground"] == [Counter(mProjectPP=1, mBgModel=1)] * images
    assert parents["mImgTbl"] == [Counter(mBackground=images)]
    assert parents["mAdd"] == [Counter(mImgTbl=1)]
    assert parents["mShrink"] == [Counter(mAdd=1)]
    assert parents["mJPEG"] == [Counter(mShrink=1)]


def test_montage_overlaps_are_near_and_vary_like_the_public_ones():
    workflow = generate("montage", 20_000, seed=4)
    diffs = [i for i, name in enumerate(workflow.task_names) if name == "mDiffFit"]
    pairs = [tuple(workflow.parents.row(task).tolist()) for task in diffs]
    images = workflow.task_names.count("mProjectPP")

    degrees = np.bincount(np.array(pairs).ravel(), minlength=images)

    assert len(set(pairs)) == len(pairs)
    assert degrees.min() >= 1
    assert degrees.mean() == pytest.approx(8, abs=0.05)
    assert 5 <= degrees.var() <= 10  # 7.0 to 9.0 in the public instances of 1,000 and more
    assert degrees.max() <= 24
    apart = np.abs(np.diff(np.array(pairs), axis=1))
    assert np.quantile(apart, 0.99) < 0.1 * images


@pytest.mark.parametrize("tasks", [7, 30, 99, 1000, 5000])
def test_a_cybershake_has_two_tasks_per_variation(tasks):
    parents = parents_by_type(generate("cybershake", tasks, seed=2))

    variations = len(parents["SeismogramSynthesis"])
    assert len(parents["ExtractSGT"]) <= variations
    assert parents["SeismogramSynthesis"] == [Counter(ExtractSGT=1)] * variations
    assert parents["PeakValCalcOkaya"] == [Counter(SeismogramSynthesis=1)] * variations
    assert parents["ZipSeis"] == [Counter(SeismogramSynthesis=variations)]
    assert parents["ZipPSA"] == [Counter(PeakValCalcOkaya=variations)]


@pytest.mark.parametrize("tasks", [20, 24, 47, 997, 1000, 1001, 1002, 1003])
def test_an_epigenomics_takes_every_piece_through_four_steps(tasks):
    parents = parents_by_type(generate("epigenomics", tasks, seed=2))

    pieces = len(parents["map_chr21"])
    assert parents["filterContams_chr21"] == [Counter(fastqSplit_chr21=1)] * pieces
    assert parents["sol2sanger_chr21"] == [Counter(filterContams_chr21=1)] * pieces
    assert parents["fastq2bfq_chr21"] == [Counter(sol2sanger_chr21=1)] * pieces
    assert parents["map_chr21"] == [Counter(fastq2bfq_chr21=1)] * pieces
    merges, lanes = parents["mapMerge_chr21"], len(parents["fastqSplit_chr21"])
    assert sum(merge["map_chr21"] for merge in merges) == pieces
    assert sum(merge["map_chr21"] > 0 for merge in merges) == lanes
    assert len(merges) - lanes <= 2
    assert parents["maqindex_chr21"] == [Counter(mapMerge_chr21=1)]
    assert parents["pileup_chr21"] == [Counter(maqindex_chr21=1)]


@pytest.mark.parametrize("tasks", [17, 30, 100, 1000, 1001])
def test_an_inspiral_has_two_passes_of_equal_groups(tasks):
    workflow = generate("inspiral", tasks, seed=2)
    parents = parents_by_type(workflow)

    segments = len(parents["TrigBank"])
    assert parents["TrigBank"] == [Counter(Thinca=1)] * segments
    assert parents["TmpltBank"] == [Counter()] * len(parents["TmpltBank"])
    first = [count for count in parents["Inspiral"] if "TmpltBank" in count]
    second = [count for count in parents["Inspiral"] if "TrigBank" in count]
    assert set(map(tuple, map(Counter.items, parents["Inspiral"]))) == {
        (("TmpltBank", 1),),
        (("TrigBank", 1),),
    }
    assert len(second) == segments
    assert len(first) - len(parents["TmpltBank"]) == tasks % 2
    thincas = [count["Inspiral"] for count in parents["Thinca"]]
    half = len(thincas) // 2
    assert thincas[:half] == thincas[half:]
    assert sum(thincas[:half]) == segments


@pytest.mark.parametrize("tasks", [24, 29, 45, 46, 97, 968, 1000])
def test_a_sipht_is_made_of_independent_parts(tasks):
    parents = parents_by_type(generate("sipht", tasks, seed=2))

    parts = len(parents["SRNA"])
    assert all(len(found) == parts for name, found in parents.items() if name != "Patser")
    assert all(count == Counter() for count in parents["Patser"])
    shares = [count["Patser"] for count in parents["Patser_concate"]]
    assert sum(shares) == len(parents["Patser"])
    if tasks > 300:
        assert min(shares) >= 15
        assert max(shares) <= 23
    searched = Counter(Findterm=1, RNAMotif=1, Transterm=1, Blast=1)
    assert parents["SRNA"] == [searched] * parts
    assert parents["Blast_synteny"] == [Counter(SRNA=1, FFN_Parse=1)] * parts
    gathered = ("Blast_candidate", "Blast_QRNA", "Blast_synteny", "Blast_paralogues")
    annotated = Counter(["Patser_concate", "SRNA", *gathered])
    assert parents["SRNA_annotate"] == [annotated] * parts
