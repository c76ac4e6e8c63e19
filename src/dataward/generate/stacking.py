"""Image stacking, as MATRIX (section 4.1.1) took it from Falkon's data diffusion.

Each task cuts an object out of one 2 MB image (6 MB before compression) in 158 ms and writes 10 KB;
a last task adds up all the cut-outs. Images are assigned to tasks at random: successive tasks do
not read neighbouring images. The paper gives no run time for the last task; here it is the same as
for the others.
"""

import numpy as np
from numpy.random import RandomState

from dataward.generate.shape import Draft, Parameter, Shape, Values

SECONDS = 0.158
CUTOUT_BYTES = 10_000


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    count = tasks - 1
    images = max(1, round(count / values["locality"]))
    size = round(values["image_mb"] * 1e6)
    names = [draft.file(f"image_{i:07d}.fit.gz", size) for i in range(images)]
    image_of = random.permutation(np.arange(count) % images).tolist()
    cutouts = [draft.file(f"roi_{i:07d}.fit", CUTOUT_BYTES) for i in range(count)]
    for i, image in enumerate(image_of):
        draft.task("cutout", SECONDS, (names[image],), (cutouts[i],))
    draft.task("aggregate", SECONDS, cutouts, (draft.file("stacked.fit", CUTOUT_BYTES),))


SHAPE = Shape(
    name="image-stacking",
    description="cut objects out of shared images, then add them up (Falkon, MATRIX)",
    granularity="any number of tasks from 2; one of them adds up",
    smallest=2,
    fill=fill,
    parameters=(
        Parameter("locality", 30.0, "tasks per image, 1 to 30 in the paper", low=1),
        Parameter("image_mb", 2.0, "size of every image in MB: 2 compressed, 6 not", low=0),
    ),
)
