"""Montage: a mosaic of the sky from many overlapping images (Pegasus, NASA/IPAC).

Characterised by Bharathi et al. 2008 and Juve et al. 2013; structure and numbers here come from
the seven public Pegasus instances of 25 to 3,000 tasks (1,192 images, 4,749 overlaps). As in those,
mAdd reads only the image table, not the images, and there is one task of each gathering type. The
instances pair images at random. Here images have places in the sky and near images overlap, with
the same number and spread of overlaps per image, so that a data-aware scheduler finds locality.
"""

import numpy as np
from numpy.random import RandomState

from dataward.generate.draws import (
    Draws,
    Normal,
    draw_one,
    draw_seconds,
    draw_sizes,
    half_either_way,
    uniform,
)
from dataward.generate.shape import Draft, Shape, Values
from dataward.model.adjacency import Indices

PROJECT_SECONDS = Normal(13.59, 0.240, 12.80, 14.39)
DIFF_SECONDS = Normal(10.59, 0.0987, 10.28, 10.91)
BACKGROUND_SECONDS = Normal(10.75, 0.173, 10.20, 11.30)
CONCAT_SECONDS_PER_OVERLAP = 0.08
MODEL_SECONDS_PER_IMAGE = half_either_way(0.43)
TABLE_SECONDS_PER_IMAGE = uniform(0.27, 0.48)
ADD_SECONDS_PER_IMAGE = uniform(0.593, 0.614)
SHRINK_SECONDS_PER_ROOT = 1.7267  # times the square root of the number of images
JPEG_SECONDS_PER_ROOT = uniform(0.19, 0.48)

RAW_BYTES = 4_222_080
HEADER_BYTES = 304
PROJECTED_BYTES = Normal(4.162e6, 1.07e4, 4.119e6, 4.206e6)  # and the corrected images
DIFF_BYTES = Normal(2.835e5, 1.1e5, 1.421e5, 4.261e5)  # cut off where it is still wide
FIT_BYTES = Normal(273.3, 9.9, 235, 307)
FITS_LIST_BYTES_PER_OVERLAP = 27.26
FITS_BYTES_PER_OVERLAP = 209.95
IMAGES_BYTES_PER_IMAGE = 167.55
CORRECTIONS_BYTES_PER_IMAGE = 53.18
NEW_IMAGES_BYTES_PER_IMAGE = uniform(280, 446)
MOSAIC_BYTES_PER_ROOT = uniform(1.73e7, 2.47e7)
SHRUNKEN_OF_MOSAIC = 0.0400159
JPEG_BYTES_PER_ROOT = uniform(7.1e4, 2.55e5)

SINGLE_TASKS = 6  # mConcatFit, mBgModel, mImgTbl, mAdd, mShrink, mJPEG


def split_count(tasks: int) -> tuple[int, int]:
    """How many images and overlaps add up to ``tasks``; four overlaps per image if possible.

    The counts equal those of the public instances: 5 and 9 for 25 tasks, 166 and 662 for 1,000.
    """
    rest = tasks - SINGLE_TASKS
    images = max(round(rest / 6), 2)
    while rest - 2 * images > images * (images - 1) // 2:
        images += 1
    return images, rest - 2 * images


def overlapping(random: RandomState, images: int, overlaps: int) -> tuple[Indices, Indices]:
    """Sorted pairs of images, lower number first; together they connect all images.

    Images lie at random in a square and are numbered along a sweep, one row left to right, the next
    right to left. Each image overlaps the next in the sweep; the other pairs are the closest ones.
    """
    x, y, cell = _sweep(random, images)
    near, far = _candidates(cell, images)
    dx, dy = x[near] - x[far], y[near] - y[far]
    distance = dx * dx + dy * dy
    distance[far == near + 1] = -1.0
    chosen = np.argsort(distance, kind="stable")[:overlaps]
    assert chosen.size == overlaps, "too few candidate pairs"
    near, far = near[chosen], far[chosen]
    order = np.lexsort((far, near))
    return near[order].astype(np.int32), far[order].astype(np.int32)


IMAGES_PER_CELL = 4  # an image then has some 36 candidates in the 3 x 3 cells around it; 8 overlap


def _sweep(random: RandomState, images: int) -> tuple[Draws, Draws, Indices]:
    x, y = random.random_sample(images), random.random_sample(images)
    side = _cells_a_side(images)
    column, row = (x * side).astype(np.int32), (y * side).astype(np.int32)
    along = np.where(row % 2 == 0, x, 1.0 - x)
    order = np.lexsort((along, row))
    return x[order], y[order], (row * side + column)[order].astype(np.int32)


def _cells_a_side(images: int) -> int:
    side = 1
    while (side + 1) * (side + 1) * IMAGES_PER_CELL <= images:
        side += 1
    return side if images > 100 else 1


def _candidates(cell: Indices, images: int) -> tuple[Indices, Indices]:
    """All pairs of images from the same or touching cells, and all successive pairs, each once."""
    side = _cells_a_side(images)
    members = np.argsort(cell, kind="stable").astype(np.int32)
    starts = np.searchsorted(cell[members], np.arange(side * side + 1))
    nears, fars = [np.arange(images - 1)], [np.arange(1, images)]
    for down, right in ((0, 0), (0, 1), (1, -1), (1, 0), (1, 1)):
        row, column = np.divmod(cell, side)
        valid = (row + down < side) & (column + right >= 0) & (column + right < side)
        mine = np.flatnonzero(valid)
        other = cell[mine] + down * side + right
        counts = starts[other + 1] - starts[other]
        ends = np.cumsum(counts)
        flat = np.arange(ends[-1] if ends.size else 0) + np.repeat(
            starts[other] - ends + counts, counts
        )
        near, far = np.repeat(mine, counts), members[flat]
        keep = near < far if (down, right) == (0, 0) else near != far
        near, far = np.minimum(near, far)[keep], np.maximum(near, far)[keep]
        successive = far == near + 1
        nears.append(near[~successive])
        fars.append(far[~successive])
    return np.concatenate(nears), np.concatenate(fars)


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    images, overlaps = split_count(tasks)
    header = draft.file("region.hdr", HEADER_BYTES)
    projected = _project(draft, random, images, header)
    fits = _fit(draft, random, projected, overlaps, header)
    corrections = _model(draft, random, fits, images)
    corrected = _correct(draft, random, projected, corrections)
    _mosaic(draft, random, corrected, header)


Image = tuple[str, str]  # the image and its area file


def _project(draft: Draft, random: RandomState, images: int, header: str) -> list[Image]:
    run_times = draw_seconds(PROJECT_SECONDS, random, images)
    projected = []
    for i, size in enumerate(draw_sizes(PROJECTED_BYTES, random, images)):
        raw = draft.file(f"2mass-atlas-{i:07d}.fits", RAW_BYTES)
        image = _image(draft, f"p{raw[:-5]}", size)
        draft.task("mProjectPP", run_times[i], (raw, header), image)
        projected.append(image)
    return projected


def _image(draft: Draft, stem: str, size: int) -> Image:
    return draft.file(f"{stem}.fits", size), draft.file(f"{stem}_area.fits", size)


def _fit(
    draft: Draft, random: RandomState, projected: list[Image], overlaps: int, header: str
) -> list[str]:
    near, far = overlapping(random, len(projected), overlaps)
    run_times = draw_seconds(DIFF_SECONDS, random, overlaps)
    diff_sizes = draw_sizes(DIFF_BYTES, random, overlaps)
    fit_sizes = draw_sizes(FIT_BYTES, random, overlaps)
    diffs, fits = [], []
    for k, (i, j) in enumerate(zip(near.tolist(), far.tolist(), strict=True)):
        diff = draft.file(f"diff_{k:07d}.txt", diff_sizes[k])
        fit = draft.file(f"fit_{k:07d}.txt", fit_sizes[k])
        inputs = (*projected[i], *projected[j], header)
        draft.task("mDiffFit", run_times[k], inputs, (diff, fit))
        diffs.append(diff)
        fits.append(fit)
    return diffs + fits


def _model(draft: Draft, random: RandomState, fits: list[str], images: int) -> str:
    overlaps = len(fits) // 2
    listed = draft.file("fits_list.tbl", round(FITS_LIST_BYTES_PER_OVERLAP * overlaps))
    table = draft.file("fits.tbl", round(FITS_BYTES_PER_OVERLAP * overlaps))
    seconds = round(CONCAT_SECONDS_PER_OVERLAP * overlaps, 2)
    draft.task("mConcatFit", seconds, [listed, *fits], (table,))
    seconds = draw_one(MODEL_SECONDS_PER_IMAGE, random)
    places = draft.file("pimages.tbl", round(IMAGES_BYTES_PER_IMAGE * images))
    corrections = draft.file("corrections.tbl", round(CORRECTIONS_BYTES_PER_IMAGE * images))
    draft.task("mBgModel", round(seconds * images, 2), (places, table), (corrections,))
    return corrections


def _correct(
    draft: Draft, random: RandomState, projected: list[Image], corrections: str
) -> list[Image]:
    run_times = draw_seconds(BACKGROUND_SECONDS, random, len(projected))
    corrected = []
    for i, size in enumerate(draw_sizes(PROJECTED_BYTES, random, len(projected))):
        image = _image(draft, f"c2mass-atlas-{i:07d}", size)
        draft.task("mBackground", run_times[i], (*projected[i], corrections), image)
        corrected.append(image)
    return corrected


def _mosaic(draft: Draft, random: RandomState, corrected: list[Image], header: str) -> None:
    images = len(corrected)
    root = float(np.sqrt(images))
    old = draft.file("cimages.tbl", round(IMAGES_BYTES_PER_IMAGE * images))
    new = draft.file("newcimages.tbl", round(draw_one(NEW_IMAGES_BYTES_PER_IMAGE, random) * images))
    seconds = round(draw_one(TABLE_SECONDS_PER_IMAGE, random) * images, 2)
    inputs = [old, *(image for image, _ in corrected), *(area for _, area in corrected)]
    draft.task("mImgTbl", seconds, inputs, (new,))
    mosaic_bytes = draw_one(MOSAIC_BYTES_PER_ROOT, random) * root
    mosaic = _image(draft, "mosaic", round(mosaic_bytes))
    seconds = round(draw_one(ADD_SECONDS_PER_IMAGE, random) * images, 2)
    draft.task("mAdd", seconds, (new, header), mosaic)
    shrunken = draft.file("shrunken.fits", round(mosaic_bytes * SHRUNKEN_OF_MOSAIC))
    draft.task("mShrink", round(SHRINK_SECONDS_PER_ROOT * root, 2), mosaic, (shrunken,))
    picture = draft.file("shrunken.jpg", round(draw_one(JPEG_BYTES_PER_ROOT, random) * root))
    seconds = round(draw_one(JPEG_SECONDS_PER_ROOT, random) * root, 2)
    draft.task("mJPEG", seconds, (shrunken,), (picture,))


SHAPE = Shape(
    name="montage",
    description="mosaic of overlapping sky images: project, compare pairs, level, add up",
    granularity="any number of tasks from 17",
    smallest=17,
    fill=fill,
)
