"""CyberShake: earthquake hazard at a site, from many variations of many ruptures (SCEC).

Characterised by Bharathi et al. 2008 and Juve et al. 2013; structure and numbers here come from
the seven public Pegasus instances of 30 to 5,000 tasks (74 ruptures, 4,546 variations). One
rupture has some 75 variations in the large instances and 5 to 7 in those of 100 tasks or fewer.
Every edge has its file, as in ADAGE's instances; in WorkflowSim's, edges to the zips have none.
"""

import numpy as np
from numpy.random import RandomState

from dataward.generate.draws import (
    Normal,
    draw_one,
    draw_seconds,
    draw_sizes,
    half_either_way,
    sizes,
)
from dataward.generate.shape import Draft, Shape, Values

EXTRACT_SECONDS = half_either_way(135.5)
SYNTHESIS_SECONDS = half_either_way(43.4)
PEAK_SECONDS = half_either_way(1.088)
ZIP_PEAKS_SECONDS_PER_VARIATION = half_either_way(0.0105)
ZIP_SEISMOGRAMS_SECONDS_PER_VARIATION = half_either_way(0.0131)

STRAIN_BYTES = Normal(2.001e10, 3.0e8, 1.937e10, 2.081e10)  # fx and fy are equally large
EXTRACTED_BYTES = half_either_way(2.317e8)
VARIATION_BYTES = half_either_way(3.71e6)
SEISMOGRAM_BYTES = 24_000
PEAK_BYTES = 216
ZIPPED_PEAK_BYTES_PER_SECOND = 2781.0  # a zip's size is proportional to its task's run time
ZIPPED_SEISMOGRAM_BYTES_PER_SECOND = 228_100.0

SINGLE_TASKS = 2  # ZipSeis, ZipPSA
VARIATIONS_PER_RUPTURE = 75
VARIATIONS_PER_RUPTURE_SMALL = 5.6
RUPTURES_SMALL = 8


def split_count(tasks: int) -> tuple[int, int]:
    """How many ruptures and variations add up to ``tasks``; a variation takes two tasks."""
    rest = tasks - SINGLE_TASKS
    variations = rest / 2
    ruptures = max(
        1,
        round(variations / VARIATIONS_PER_RUPTURE),
        min(RUPTURES_SMALL, round(variations / (VARIATIONS_PER_RUPTURE_SMALL + 0.5))),
    )
    if (rest - ruptures) % 2:
        ruptures += 1
    return ruptures, (rest - ruptures) // 2


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    ruptures, variations = split_count(tasks)
    # Every rupture has one variation; the others are spread over the ruptures at random.
    fallen = random.randint(0, ruptures, variations - ruptures, dtype=np.int64)
    extra = np.bincount(fallen, minlength=ruptures)
    rupture_of = np.repeat(np.arange(ruptures), extra + 1).tolist()
    files = [
        draft.file(f"FFI_{r:06d}_{v:07d}_txt.variation", size)
        for v, (r, size) in enumerate(
            zip(rupture_of, draw_sizes(VARIATION_BYTES, random, variations), strict=True)
        )
    ]
    extracted = _extract(draft, random, ruptures, rupture_of, files)
    seismograms = _synthesise(draft, random, rupture_of, files, extracted)
    peaks = _peaks(draft, random, seismograms)
    _zip(draft, random, seismograms, peaks)


def _extract(
    draft: Draft, random: RandomState, ruptures: int, rupture_of: list[int], files: list[str]
) -> list[tuple[str, str]]:
    run_times = draw_seconds(EXTRACT_SECONDS, random, ruptures)
    strains = draw_sizes(STRAIN_BYTES, random, ruptures)
    parts = draw_sizes(EXTRACTED_BYTES, random, ruptures)
    first = np.searchsorted(rupture_of, np.arange(ruptures)).tolist()
    extracted = []
    for r in range(ruptures):
        inputs = [draft.file(f"FFI_{r:06d}_{axis}.sgt", strains[r]) for axis in ("fx", "fy")]
        x, y = (draft.file(f"FFI_{r:06d}_sub{axis}.sgt", parts[r]) for axis in ("fx", "fy"))
        draft.task("ExtractSGT", run_times[r], [*inputs, files[first[r]]], (x, y))
        extracted.append((x, y))
    return extracted


def _synthesise(
    draft: Draft,
    random: RandomState,
    rupture_of: list[int],
    files: list[str],
    extracted: list[tuple[str, str]],
) -> list[str]:
    run_times = draw_seconds(SYNTHESIS_SECONDS, random, len(files))
    seismograms = []
    for v, (rupture, variation) in enumerate(zip(rupture_of, files, strict=True)):
        seismogram = draft.file(f"Seismogram_FFI_{v:07d}.grm", SEISMOGRAM_BYTES)
        inputs = (variation, *extracted[rupture])
        draft.task("SeismogramSynthesis", run_times[v], inputs, (seismogram,))
        seismograms.append(seismogram)
    return seismograms


def _peaks(draft: Draft, random: RandomState, seismograms: list[str]) -> list[str]:
    run_times = draw_seconds(PEAK_SECONDS, random, len(seismograms))
    peaks = []
    for v, seismogram in enumerate(seismograms):
        peak = draft.file(f"PeakVals_FFI_{v:07d}.bsa", PEAK_BYTES)
        draft.task("PeakValCalcOkaya", run_times[v], (seismogram,), (peak,))
        peaks.append(peak)
    return peaks


def _zip(draft: Draft, random: RandomState, seismograms: list[str], peaks: list[str]) -> None:
    count = len(peaks)
    took = np.array([draw_one(ZIP_SEISMOGRAMS_SECONDS_PER_VARIATION, random) * count])
    size = sizes(took * ZIPPED_SEISMOGRAM_BYTES_PER_SECOND)[0]
    zipped = draft.file("Cybershake_Seismograms.zip", size)
    draft.task("ZipSeis", round(float(took[0]), 2), seismograms, (zipped,))
    took = np.array([draw_one(ZIP_PEAKS_SECONDS_PER_VARIATION, random) * count])
    size = sizes(took * ZIPPED_PEAK_BYTES_PER_SECOND)[0]
    draft.task("ZipPSA", round(float(took[0]), 2), peaks, (draft.file("Cybershake_PSA.zip", size),))


SHAPE = Shape(
    name="cybershake",
    description="earthquake hazard: extract strains per rupture, two tasks per variation, two zips",
    granularity="any number of tasks from 7",
    smallest=7,
    fill=fill,
)
