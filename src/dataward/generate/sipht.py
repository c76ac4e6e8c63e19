"""Sipht: the search for small RNAs in a bacterium's genome, one part per replicon (Harvard).

Characterised by Bharathi et al. 2008 and Juve et al. 2013; structure and numbers here come from
the three public Pegasus instances of 29, 97 and 968 tasks (36 parts, 662 Patser tasks). The parts
are independent of each other. Those instances give the files of all parts the same names, so that
files have several producers; here every part has its own files. Blast and Blast_QRNA read some 890
files each, the same files in every part, so Sipht has by far the most data per task of the five.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState

from dataward.generate.draws import (
    Always,
    Between,
    Draw,
    Normal,
    draw_seconds,
    draw_sizes,
    half_either_way,
    uniform,
)
from dataward.generate.shape import Draft, Shape, Values

PATSER_SECONDS = Normal(1.275, 0.347, 0.65, 1.89)
PATSER_BYTES = half_either_way(91_600)
MATRIX_BYTES = 170_917
PARTNER_FILES = 934
PARTNERS_READ_MIN = 843
PARTNER_BYTES = uniform(144_300, 432_800)

# Files every part reads.
COMMON = {
    "patser.in": 14,
    "alphabet": 16,
    "RNAfold": 591_942,
    "RNAMofficial_descriptor.txt": 17_626,
    "expterm.dat": 45_788,
    "blasta": 786_856,
    "xdformat": 380_164,
    "time": 11_944,
    "access_genomes2.txt": 83_722,
    "sRNAPredict.in": 1_198,
    "All_known_sRNAs.txt": 1_028_403,
    "Seq_known_sRNAs_IGRs.txt": 172_432,
    "mix_tied_linux.cfg": 11_964,
    "RIBOPROB.mat": 8_350,
    "BLOSUM62": 2_122,
    "blastn2qrnadepth.pl": 69_426,
    "qrna2gff.pl": 16_995,
    "eqrna": 953_556,
    "Flanking_ORFs_known.txt": 1_419_426,
    "access_matrix.txt": 170_917,
}

# Files that only one part reads.
OWN: dict[str, Draw] = {
    "fna": Between(2_746_000, 3_091_000, 6_895_000),
    "ptt": Always(334_452),
    "gbk": Normal(13_080_000, 482_600, 10_570_000, 14_220_000),
    "ffn": Normal(4_307_000, 145_100, 3_783_000, 4_952_000),
    "IGR_partners.txt": Normal(309_400, 26_510, 144_600, 408_000),
}

PARTNERS = "*"  # stands for the partner files, which all parts share
BLAST_PROGRAMS = ("blasta", "xdformat", "time")


@dataclass(frozen=True, slots=True)
class SiphtStep:
    """One task of a part; it reads common files, the part's own, or outputs of earlier steps."""

    name: str
    seconds: Draw
    inputs: tuple[str, ...]
    outputs: dict[str, Draw]


SEARCHES = (
    SiphtStep(
        "Findterm",
        Between(687, 1239, 1998),
        ("fna", "RNAfold"),
        {
            "findterm.out": Always(134),
            "findterm.err": Always(0),
            "term.txt": Normal(21_070_000, 2_006_000, 11_870_000, 24_570_000),
            "term_candidates_non_redund": Between(193_400, 450_800, 512_000),
            "rna.ps": Always(2_824),
            "vienna_input_tmp": Normal(4_104_000, 112_900, 3_836_000, 4_546_000),
            "vienna_output": Normal(5_814_000, 531_100, 4_302_000, 7_800_000),
            "vienna_index_tmp": Normal(6_487_000, 261_900, 5_085_000, 7_128_000),
        },
    ),
    SiphtStep(
        "RNAMotif",
        Normal(34.5, 7.87, 19.62, 47.52),
        ("fna", "RNAMofficial_descriptor.txt"),
        {
            "rnamotif.out": Normal(1_108_000, 21_040, 1_032_000, 1_158_000),
            "rnamotif.err": Always(310),
        },
    ),
    SiphtStep(
        "Transterm",
        Normal(55.7, 21.8, 29.79, 83.2),
        ("fna", "ptt", "expterm.dat"),
        {
            "transterm.out": Normal(451_000, 7_459, 423_400, 479_600),
            "transterm.err": Always(96),
        },
    ),
    SiphtStep(
        "Blast",
        Normal(2509, 608, 1536, 3380),
        (*BLAST_PROGRAMS, "IGR_partners.txt", PARTNERS),
        {
            "blast.err": Always(548),
            "blast.out": Always(511),
            "BLAST_sorted.out": Between(3_162_000, 6_869_000, 7_136_000),
        },
    ),
)

SRNA = SiphtStep(
    "SRNA",
    Normal(448, 255, 185, 523),
    (
        "access_genomes2.txt",
        "sRNAPredict.in",
        "All_known_sRNAs.txt",
        "fna",
        "ptt",
        "gbk",
        "BLAST_sorted.out",
        "blast.out",
        *SEARCHES[0].outputs,
        *SEARCHES[1].outputs,
        *SEARCHES[2].outputs,
    ),
    {
        "srna.out": Normal(340_300, 3_890, 321_900, 341_300),
        "srna.err": Always(1_854),
        "Seq": Normal(83_920, 1_125, 78_000, 86_230),
        "Blast_Out": Normal(3_141_000, 137_300, 2_712_000, 3_714_000),
        "OutBlastParsed": Normal(1_007_000, 100_000, 883_800, 1_379_000),
        "OutCandidates": Between(114_900, 128_200, 273_800),
        "OutCandidates2": Between(126_900, 287_600, 301_700),
        "OutCandidates3": Between(170_700, 269_600, 296_600),
        "OutConsIG": Between(319_200, 363_400, 602_500),
        "OutIG": Normal(597_600, 2_666, 591_900, 611_900),
        "OutORF": Normal(298_000, 7_972, 295_900, 340_400),
        "OutTerm_temp": Normal(118_200, 7_583, 94_980, 145_900),
        "OutTerms": Normal(47_060, 3_779, 39_470, 64_880),
        "OutTermsIG": Normal(16_920, 1_241, 13_240, 21_610),
    },
)

ANALYSES = (
    SiphtStep(
        "FFN_Parse",
        Normal(1.607, 0.215, 0.99, 2.10),
        ("ffn", "ptt", "Seq"),
        {"parsed.ffn": Normal(722_200, 54_080, 633_100, 962_600)},
    ),
    SiphtStep(
        "Blast_candidate",
        Normal(5.28, 1.475, 3.09, 6.82),
        (*BLAST_PROGRAMS, "Seq_known_sRNAs_IGRs.txt", "Seq"),
        {
            "BLAST": Normal(11_650, 414, 11_410, 13_020),
            "blast_candidate.out": Normal(3_357, 156, 2_789, 3_411),
            "blast_candidate.err": Always(544),
        },
    ),
    SiphtStep(
        "Blast_QRNA",
        Normal(1419, 84, 1252, 1613),
        (
            *BLAST_PROGRAMS,
            "mix_tied_linux.cfg",
            "RIBOPROB.mat",
            "BLOSUM62",
            "blastn2qrnadepth.pl",
            "qrna2gff.pl",
            "eqrna",
            "Seq",
            "IGR_partners.txt",
            PARTNERS,
        ),
        {
            "qrna.out": Between(3_850, 6_458, 6_792),
            "qrna.err": Always(610),
            "QRNA.txt": Normal(792_500, 6_288, 768_700, 794_500),
            "QRNA.txt.all.gff": Normal(183_100, 2_730, 170_200, 183_900),
            "QRNAblast.txt": Normal(2_133_000, 174_400, 1_777_000, 2_979_000),
            "QRNAblast.txt.q": Normal(167_300, 3_714, 159_800, 184_500),
            "QRNAblast.txt.q.gff": Normal(41_000, 1_899, 33_550, 48_780),
            "QRNAblast.txt.q.rep": Normal(40_230, 2_101, 31_500, 48_110),
        },
    ),
    SiphtStep(
        "Blast_synteny",
        Always(33.0),
        (*BLAST_PROGRAMS, "Flanking_ORFs_known.txt", "Seq", "parsed.ffn"),
        {"synteny.txt": Normal(1_078_000, 82_930, 610_700, 1_198_000)},
    ),
    SiphtStep(
        "Blast_paralogues",
        Normal(4.99, 1.75, 2.63, 7.36),
        (*BLAST_PROGRAMS, "Seq"),
        {"paralogues.txt": Normal(735_500, 77_480, 364_700, 986_000)},
    ),
    SiphtStep(
        "SRNA_annotate",
        Normal(1.523, 0.709, 0.86, 2.42),
        (
            "access_matrix.txt",
            "sRNAPredict.in",
            "PatserOut.txt",
            "srna.out",
            "Seq",
            "BLAST",
            "blast_candidate.out",
            "blast_candidate.err",
            "QRNA.txt.all.gff",
            "synteny.txt",
            "paralogues.txt",
        ),
        {
            "sRNA.out_annotated": Always(391_529),
            "paralogues_temp.txt": Normal(95_250, 6_655, 68_170, 124_100),
            "synteny_temp.txt": Normal(23_750, 1_863, 15_170, 27_820),
            "synteny_temp2.txt": Between(1_557, 3_498, 3_614),
            "Block0_Parsed_temp_PatserOut.txt": Normal(671_800, 50_620, 474_800, 834_900),
            "QRNA_out": Between(3_538, 3_943, 8_812),
            "srna_annotate.out": Between(307_900, 328_100, 726_800),
            "srna_annotate.err": Always(1_070),
        },
    ),
)

CONCAT = SiphtStep(
    "Patser_concate",
    Between(0.04, 0.0776, 0.12),
    (),
    {"PatserOut.txt": Normal(1_654_000, 62_460, 1_547_000, 1_894_000)},
)

STEPS = (CONCAT, *SEARCHES, SRNA, *ANALYSES)
PATSERS_PER_PART = 18.4


def split_count(tasks: int) -> tuple[int, int]:
    """How many parts and Patser tasks add up to ``tasks``; some 18 Patsers per part."""
    parts = max(1, round(tasks / (len(STEPS) + PATSERS_PER_PART)))
    return parts, tasks - len(STEPS) * parts


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    parts, patsers = split_count(tasks)
    for name, size in COMMON.items():
        draft.file(name, size)
    read = {step.name: _partners_read(random, parts) for step in STEPS if PARTNERS in step.inputs}
    most = max(map(max, read.values()))
    partners = [
        draft.file(f"NC_partner_{i:04d}_IGR_partners.txt", size)
        for i, size in enumerate(draw_sizes(PARTNER_BYTES, random, most))
    ]
    _declare_own(draft, random, parts)
    gathered = _patser(draft, random, _share(random, parts, patsers))
    for step in STEPS:
        if step is CONCAT:
            _add_step(draft, random, step, parts, gathered)
        else:
            counts = read.get(step.name, [0] * parts)
            _add_step(draft, random, step, parts, (partners[:count] for count in counts))


def _partners_read(random: RandomState, parts: int) -> list[int]:
    """How many of the partner files each part's task reads; it reads the first ones."""
    drawn = random.randint(PARTNERS_READ_MIN, PARTNER_FILES + 1, parts, dtype=np.int64)
    counts: list[int] = drawn.tolist()
    return counts


def _share(random: RandomState, parts: int, patsers: int) -> list[int]:
    """How many Patsers each part has: equal shares, from which some parts pass up to two on."""
    shares = np.full(parts, patsers // parts)
    shares[: patsers % parts] += 1
    passed = np.minimum(random.randint(0, 3, parts, dtype=np.int64), shares - 1)
    mixed: list[int] = (shares - passed + passed[random.permutation(parts)]).tolist()
    return mixed


def _declare_own(draft: Draft, random: RandomState, parts: int) -> None:
    for kind, draw in OWN.items():
        for part, size in enumerate(draw_sizes(draw, random, parts)):
            draft.file(_name(part, kind), size)


def _name(part: int, kind: str) -> str:
    return f"NC_{part:06d}_{kind}"


def _patser(draft: Draft, random: RandomState, shares: list[int]) -> list[list[str]]:
    count = sum(shares)
    run_times = draw_seconds(PATSER_SECONDS, random, count)
    out_bytes = draw_sizes(PATSER_BYTES, random, count)
    made: list[list[str]] = []
    i = 0
    for part, share in enumerate(shares):
        made.append([])
        for _ in range(share):
            matrix = draft.file(f"{i:07d}_matrix.txt", MATRIX_BYTES)
            out = draft.file(f"NC_{part:06d}_PatserOut_{i:07d}.txt", out_bytes[i])
            inputs = (_name(part, "fna"), matrix, "alphabet", "patser.in")
            draft.task("Patser", run_times[i], inputs, (out,))
            made[part].append(out)
            i += 1
    return made


def _add_step(
    draft: Draft, random: RandomState, step: SiphtStep, parts: int, more: Iterable[list[str]]
) -> None:
    """Add a task for every part; ``more`` has the files that each reads besides the step's."""
    run_times = draw_seconds(step.seconds, random, parts)
    out_bytes = {kind: draw_sizes(draw, random, parts) for kind, draw in step.outputs.items()}
    common = [kind for kind in step.inputs if kind in COMMON]
    own = [kind for kind in step.inputs if kind not in COMMON and kind != PARTNERS]
    for part, besides in enumerate(more):
        inputs = [*common, *(_name(part, kind) for kind in own), *besides]
        outputs = [draft.file(_name(part, kind), out_bytes[kind][part]) for kind in out_bytes]
        draft.task(step.name, run_times[part], inputs, outputs)


SHAPE = Shape(
    name="sipht",
    description="small RNAs: about 18 Patsers and 12 other tasks for every part of a genome",
    granularity="any number of tasks from 24; 16 to 23 Patsers a part from some 300 tasks on",
    smallest=24,
    fill=fill,
)
