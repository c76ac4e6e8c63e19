"""Epigenomics: DNA reads, cut in pieces, cleaned and mapped to a genome (USC Epigenome Center).

Characterised by Bharathi et al. 2008 and Juve et al. 2013; structure and numbers here come from
the four public Pegasus instances of 24 to 997 tasks (11 lanes, 284 pieces). In those instances some
sizes and run times are negative; here a piece keeps at least a twentieth of its share.
"""

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.generate.draws import (
    Between,
    Draws,
    Normal,
    draw_one,
    draw_sizes,
    seconds,
    sizes,
    uniform,
)
from dataward.generate.shape import Draft, Shape, Values

Lanes = NDArray[np.int64]  # the lane of each piece

LANE_BYTES = uniform(2.23e8, 4.77e8)
# How unevenly a lane is cut into pieces. A piece's share of its lane, where 1 is an equal share,
# deviates by 0.02 for every piece of the lane, and by no more than 0.75.
UNEVENNESS_PER_PIECE = 0.02
UNEVENNESS_MAX = 0.75
PIECE_SHARE_MIN, PIECE_SHARE_MAX = 0.05, 3.7
# Per million bytes read. Normals are cut off at the observed extremes; between them, they have the
# observed mean and deviation (0.150 and 0.037 for the split, 0.129 and 0.038 for the filter ...).
SPLIT_SECONDS = Normal(0.119, 0.071, 0.092, 0.232)
FILTER_SECONDS = Normal(-0.0266, 0.107, 0.0794, 0.235)
SANGER_SECONDS = Normal(0.0661, 0.0208, 0.041, 0.133)
BINARY_SECONDS = Normal(0.150, 0.0264, 0.084, 0.251)
MERGE_SECONDS = uniform(0.384, 0.433)
LAST_MERGE_SECONDS = uniform(0.41, 0.63)
INDEX_SECONDS = Between(0.00084, 0.00094, 0.00118)
# Bytes written per byte read.
CLEAN_SHARE = uniform(0.475, 0.525)
SANGER_SHARE = Normal(0.653, 0.2755, 0.515, 1.50)
BINARY_SHARE = Normal(0.2384, 0.0247, 0.179, 0.324)
MAPPED_SHARE = 1.087
MERGED_SHARE = 0.9434
ZR_SHARE = uniform(0.0176, 0.0470)
VM_SHARE = uniform(0.0029, 0.0062)
INDEX_SHARE = uniform(0.0136, 0.0179)
PILEUP_BYTES = uniform(3.0e6, 9.4e6)
# The time to map a piece is proportional to the size of the genome. The two instances under 75
# tasks read a small genome.
GENOME_BYTES = uniform(5.301e9, 5.305e9)
SMALL_GENOME_BYTES = uniform(1.249e9, 1.274e9)
SMALL_TASKS = 75
MAP_SECONDS_PER_GENOME_GB = Normal(2492, 1103, 1811, 5236)
PILEUP_SECONDS_PER_GENOME_GB = uniform(1100, 1282)

PIECES_PER_LANE = 35
STEPS = ("filterContams_chr21", "sol2sanger_chr21", "fastq2bfq_chr21", "map_chr21")


def split_count(tasks: int) -> tuple[int, int, bool]:
    """How many lanes and pieces add up to ``tasks``, and whether an extra merge is needed.

    A piece takes four tasks, a lane two (split and merge), the end three (merge of the merges,
    maqindex, pileup); a single lane needs no merge of merges. With several lanes, an even number of
    tasks is reached by one extra task that merges some lanes before the others.
    """
    ideal = max(1, round(tasks / (4 * PIECES_PER_LANE + 2)))
    if ideal == 1 and tasks % 4 == 0:
        return 1, (tasks - 4) // 4, False
    extra = tasks % 2 == 0
    lanes = max(ideal, 3 if extra else 2)
    if (tasks - 3 - extra - 2 * lanes) % 4:
        lanes += 1
    return lanes, (tasks - 3 - extra - 2 * lanes) // 4, extra


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    lanes, pieces, extra = split_count(tasks)
    lane_of: Lanes = np.arange(pieces, dtype=np.int64) * lanes // pieces
    genome_bytes = draw_one(SMALL_GENOME_BYTES if tasks < SMALL_TASKS else GENOME_BYTES, random)
    piece_bytes = _split(draft, random, lanes, lane_of)
    mapped_bytes = _map(draft, random, lane_of, piece_bytes, genome_bytes)
    merged = _merge(draft, random, lane_of, lanes, mapped_bytes, extra)
    _pileup(draft, random, *merged, genome_bytes)


def _piece(lane: int, piece: int, kind: str) -> str:
    return f"chr21.{lane}.{piece:07d}.{kind}"


def _split(draft: Draft, random: RandomState, lanes: int, lane_of: Lanes) -> Draws:
    """Add the tasks that cut lanes into pieces, and return the pieces' sizes.

    The sizes of a lane's pieces add up to the size of the lane.
    """
    lane_bytes = np.rint(LANE_BYTES.sample(random, lanes))
    uneven = min(UNEVENNESS_PER_PIECE * len(lane_of) / lanes, UNEVENNESS_MAX)
    share = Normal(1.0, uneven, PIECE_SHARE_MIN, PIECE_SHARE_MAX)
    shares = share.sample(random, len(lane_of))
    totals = np.bincount(lane_of, weights=shares)
    piece_bytes: Draws = np.floor(shares / totals[lane_of] * lane_bytes[lane_of])
    run_times = seconds(SPLIT_SECONDS.sample(random, lanes) * lane_bytes / 1e6)
    outputs: list[list[str]] = [[] for _ in range(lanes)]
    for i, (lane, size) in enumerate(zip(lane_of.tolist(), sizes(piece_bytes), strict=True)):
        outputs[lane].append(draft.file(_piece(lane, i, "sfq"), size))
    for lane, size in enumerate(sizes(lane_bytes)):
        reads = draft.file(f"chr21.{lane}.sfq", size)
        draft.task("fastqSplit_chr21", run_times[lane], (reads,), outputs[lane])
    return piece_bytes


def _map(
    draft: Draft, random: RandomState, lane_of: Lanes, piece_bytes: Draws, genome_bytes: float
) -> Draws:
    """Add the four tasks of every piece, step by step; return the sizes of the mapped pieces."""
    count = len(lane_of)
    clean = np.rint(CLEAN_SHARE.sample(random, count) * piece_bytes)
    sanger = np.rint(SANGER_SHARE.sample(random, count) * clean)
    binary = np.rint(BINARY_SHARE.sample(random, count) * sanger)
    mapped = np.rint(MAPPED_SHARE * binary)
    run_times = [
        seconds(FILTER_SECONDS.sample(random, count) * piece_bytes / 1e6),
        seconds(SANGER_SECONDS.sample(random, count) * clean / 1e6),
        seconds(BINARY_SECONDS.sample(random, count) * sanger / 1e6),
        seconds(MAP_SECONDS_PER_GENOME_GB.sample(random, count) * genome_bytes / 1e9),
    ]
    written = [sizes(clean), sizes(sanger), sizes(binary), sizes(mapped)]
    contaminated = sizes(piece_bytes - clean)
    genome = draft.file("chr21.BS.bfa", round(genome_bytes))
    kinds = ("sfq", "nocontam.sfq", "nocontam.fq", "nocontam.bfq", "nocontam.map")
    lanes = lane_of.tolist()
    for step, name in enumerate(STEPS):
        for i in range(count):
            inputs = [_piece(lanes[i], i, kinds[step])]
            outputs = [draft.file(_piece(lanes[i], i, kinds[step + 1]), written[step][i])]
            if step == 0:
                outputs.append(draft.file(_piece(lanes[i], i, "contam.sfq"), contaminated[i]))
            if step == 3:
                inputs.append(genome)
            draft.task(name, run_times[step][i], inputs, outputs)
    return mapped


def _merge(
    draft: Draft, random: RandomState, lane_of: Lanes, lanes: int, mapped: Draws, extra: bool
) -> tuple[str, float]:
    """Add the merges, and return the last merge's file and its size."""
    pieces: list[list[str]] = [[] for _ in range(lanes)]
    for i, lane in enumerate(lane_of.tolist()):
        pieces[lane].append(_piece(lane, i, "nocontam.map"))
    totals = np.bincount(lane_of, weights=mapped)
    if lanes == 1:
        return _last_merge(draft, random, pieces[0], float(totals[0]), MERGE_SECONDS)
    run_times = seconds(MERGE_SECONDS.sample(random, lanes) * totals / 1e6)
    merged_bytes = np.rint(MERGED_SHARE * totals)
    merged = []
    for lane, size in enumerate(sizes(merged_bytes)):
        merged.append(draft.file(f"chr21_{lane}.nocontam.map", size))
        draft.task("mapMerge_chr21", run_times[lane], pieces[lane], merged[lane : lane + 1])
    if extra:
        half = (lanes + 1) // 2
        read = float(merged_bytes[:half].sum())
        took = round(draw_one(MERGE_SECONDS, random) * read / 1e6, 2)
        early = draft.file("chr21_early.nocontam.map", round(MERGED_SHARE * read))
        draft.task("mapMerge_chr21", took, merged[:half], (early,))
        merged = [early, *merged[half:]]
        merged_bytes = np.concatenate([[round(MERGED_SHARE * read)], merged_bytes[half:]])
    return _last_merge(draft, random, merged, float(merged_bytes.sum()), LAST_MERGE_SECONDS)


def _last_merge(
    draft: Draft, random: RandomState, inputs: list[str], read: float, took: Between
) -> tuple[str, float]:
    size = round(MERGED_SHARE * read)
    outputs = [
        draft.file("chr21.nocontam.map", size),
        draft.file("chr21.nocontam.map.zr", round(draw_one(ZR_SHARE, random) * size)),
        draft.file("chr21.nocontam.map.vm", round(draw_one(VM_SHARE, random) * size)),
    ]
    draft.task("mapMerge_chr21", round(draw_one(took, random) * read / 1e6, 2), inputs, outputs)
    return outputs[0], size


def _pileup(
    draft: Draft, random: RandomState, merged: str, merged_bytes: float, genome_bytes: float
) -> None:
    size = round(draw_one(INDEX_SHARE, random) * merged_bytes)
    index = draft.file("chr21.nocontam.chr.map", size)
    took = round(draw_one(INDEX_SECONDS, random) * merged_bytes / 1e6, 2)
    draft.task("maqindex_chr21", took, (merged,), (index,))
    null = draft.file("chr21.BSnull.bfa", round(genome_bytes))
    pileup = draft.file("chr21.nocontam.chr.pileup", draw_sizes(PILEUP_BYTES, random, 1)[0])
    per_gb = draw_one(PILEUP_SECONDS_PER_GENOME_GB, random)
    took = round(per_gb * genome_bytes / 1e9, 2)
    draft.task("pileup_chr21", took, (null, index), (pileup,))


SHAPE = Shape(
    name="epigenomics",
    description="DNA reads: split lanes, four steps per piece, merge, pile up",
    granularity="any number of tasks from 20",
    smallest=20,
    fill=fill,
)
