"""Which calls travel together, on made-up calls of made-up functions."""

from collections import Counter, deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from dataward.calls.bundles import Bundler, BundleSettings, Item, Pace, PreferredNode

SETTINGS = BundleSettings(calls_max=40)


@dataclass
class Machine:
    """Makes bundles, some at a time, and holds the bundler to its promises as it goes."""

    bundler: Bundler
    seconds: dict[Pace, float]
    needs: dict[int, list[Item]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    sent: "Counter[int]" = field(default_factory=Counter)
    under_way: "deque[list[Item]]" = field(default_factory=deque)
    largest: "Counter[Pace]" = field(default_factory=Counter)

    def add(self, item: Item, needs: list[Item]) -> None:
        self.needs[item.number] = needs
        self.bundler.add(item, [need for need in needs if need.number not in self.done])

    def send(self) -> list[Item]:
        bundle = self.bundler.next_bundle()
        if bundle:
            self._check(bundle)
            self.sent.update(item.number for item in bundle)
            self.under_way.append(bundle)
        return bundle

    def _check(self, bundle: list[Item]) -> None:
        settings = self.bundler.settings
        before: set[int] = set()
        for item in bundle:
            assert not item.gone
            assert all(n.number in self.done | before for n in self.needs[item.number])
            before.add(item.number)
        counts = Counter(item.pace for item in bundle)
        if len(bundle) > 1:
            assert all(pace.is_known for pace in counts)
            assert sum(item.pace.seconds for item in bundle) <= settings.target_seconds
        assert len(bundle) <= settings.calls_max
        for pace, count in counts.items():
            assert count <= max(1, settings.growth * self.largest[pace])

    def finish_first(self) -> None:
        bundle = self.under_way.popleft()
        for pace, count in Counter(item.pace for item in bundle).items():
            pace.learn(count, count * self.seconds[pace])
            self.largest[pace] = max(self.largest[pace], count)
        self._make(bundle)

    def give_back_the_end_of_the_first(self, made: int) -> None:
        bundle = self.under_way.popleft()
        back = bundle[made:]
        self.sent.subtract(item.number for item in back)
        self.bundler.give_back(back)
        self._make(bundle[:made])

    def _make(self, items: list[Item]) -> None:
        for item in items:
            self.done.add(item.number)
            self.bundler.finished(item)


def a_machine(slots: int = 2, **seconds: float) -> tuple[Machine, dict[str, Pace]]:
    paces = {name: Pace() for name in seconds}
    times = {paces[name]: taken for name, taken in seconds.items()}
    return Machine(Bundler(slots, SETTINGS), times), paces


def warmed_up(machine: Machine, pace: Pace, calls: int) -> None:
    pace.learn(calls, calls * machine.seconds[pace])
    machine.largest[pace] = calls


@given(st.integers(1, 4), st.data())
def test_every_call_is_made_once_in_an_order_that_suits_its_dependencies(slots, data):
    machine, paces = a_machine(slots, fast=1e-6, brisk=0.01, slow=2.0)
    items: list[Item] = []
    losses = data.draw(st.integers(0, 3))
    for number in range(data.draw(st.integers(1, 60))):
        item = Item(number, paces[data.draw(st.sampled_from(sorted(paces)))])
        among = st.lists(st.sampled_from(items), max_size=3, unique=True) if items else st.just([])
        machine.add(item, data.draw(among))
        items.append(item)
        if data.draw(st.booleans()):
            machine.send()
        if machine.under_way and data.draw(st.booleans()):
            machine.finish_first()
    while machine.send() or machine.under_way:
        if not machine.under_way:
            continue
        if losses and data.draw(st.booleans()):
            losses -= 1
            made = data.draw(st.integers(0, len(machine.under_way[0])))
            machine.give_back_the_end_of_the_first(made)
        elif data.draw(st.booleans()) or not machine.bundler.ready:
            machine.finish_first()

    assert machine.done == set(range(len(items)))
    assert set(machine.sent.values()) == {1}


@given(st.integers(1, 3), st.lists(st.sampled_from(["fast", "slow"]), max_size=80))
def test_a_slow_function_goes_by_itself_however_many_fast_ones_are_around(slots, kinds):
    machine, paces = a_machine(slots, fast=1e-6, slow=3.0)
    warmed_up(machine, paces["fast"], 30)
    warmed_up(machine, paces["slow"], 1)
    for number, kind in enumerate(kinds):
        machine.add(Item(number, paces[kind]), [])

    while bundle := machine.send():
        assert len(bundle) == 1 or paces["slow"] not in {item.pace for item in bundle}


def test_the_first_call_of_a_function_goes_by_itself_and_bundles_grow_from_there():
    machine, paces = a_machine(1, fast=1e-6)
    for number in range(1000):
        machine.add(Item(number, paces["fast"]), [])

    sizes = []
    while bundle := machine.send():
        sizes.append(len(bundle))
        machine.finish_first()

    assert sizes[:3] == [1, 8, 40]


def test_what_turns_out_slow_is_believed_at_once_and_what_turns_out_quick_after_a_while():
    pace = Pace()
    pace.learn(100, 0.001)

    pace.learn(10, 10.0)
    slow = pace.seconds
    pace.learn(1, 0.0)

    assert slow == 1.0
    assert pace.seconds == 0.75


@given(st.integers(1, 6), st.integers(1, 200))
def test_no_bundle_takes_more_than_its_share_of_what_is_ready(slots, count):
    machine, paces = a_machine(slots, fast=1e-6)
    warmed_up(machine, paces["fast"], 40)
    for number in range(count):
        machine.add(Item(number, paces["fast"]), [])

    while machine.bundler.ready:
        ready = len(machine.bundler.ready)
        assert len(machine.send()) <= -(-ready // (slots * SETTINGS.ahead))


def test_a_chain_of_fast_calls_is_one_journey():
    machine, paces = a_machine(1, fast=1e-6)
    warmed_up(machine, paces["fast"], 30)
    chain = [Item(number, paces["fast"]) for number in range(30)]
    for number, item in enumerate(chain):
        machine.add(item, chain[number - 1 : number] if number else [])

    assert machine.send() == chain


def test_one_that_needs_something_from_outside_does_not_join():
    machine, paces = a_machine(1, fast=1e-6)
    warmed_up(machine, paces["fast"], 30)
    first, other, both = (Item(number, paces["fast"]) for number in range(3))
    machine.add(first, [])
    bundle = machine.send()
    machine.add(other, [])
    machine.add(both, [first, other])

    assert bundle == [first]
    assert machine.send() == [other]
    machine.finish_first()
    assert machine.send() == []
    machine.finish_first()
    assert machine.send() == [both]


def test_those_that_are_gone_are_passed_over():
    machine, paces = a_machine(1, fast=1e-6)
    warmed_up(machine, paces["fast"], 30)
    items = [Item(number, paces["fast"]) for number in range(5)]
    for item in items:
        machine.add(item, [])
    for item in items[:4]:
        item.gone = True

    assert machine.send() == items[4:]
    assert machine.send() == []


# --- calls that need large values ----------------------------------------------------------------


class Places:
    """Values are at the nodes that calls prefer and ``at`` others; they take 5 s to any other."""

    def __init__(self, homes, at=None, also=None):
        self.homes = homes
        self.at = at or {}
        self.also = also or {}  # seconds to bring the rest of what a call needs, to any node

    def preferred_of(self, item):
        home = self.homes.get(item.number)
        return PreferredNode(home, 5.0) if home else None

    def moving_seconds(self, item, node):
        if item.number in self.also:
            return self.also[item.number]
        is_here = self.homes[item.number] == node or node in self.at.get(item.number, ())
        return 0.0 if is_here else 5.0

    def slots_at(self, node):
        return 2


class Clock:
    now = 0.0


def lined_up(numbers, places, seconds, clock):
    """Calls that take so long, in a bundler for two nodes of two slots."""
    bundler, pace = Bundler(4, places=places, now=lambda: clock.now), Pace()
    pace.learn(1, seconds)
    for number in numbers:
        bundler.add(Item(number, pace), [])
    return bundler


def next_numbers(bundler, node):
    return [item.number for item in bundler.next_bundle(node)]


def test_a_call_leaves_a_node_that_takes_no_calls_when_its_value_could_have_been_moved():
    clock = Clock()
    bundler = lined_up((1, 2, 3), Places({1: "n1", 2: "n2"}), 0.0001, clock)

    assert next_numbers(bundler, "n2") == [2], "first what is at home there"
    assert next_numbers(bundler, "n2") == [3], "then what is at home nowhere"
    clock.now = 4.9
    assert next_numbers(bundler, "n2") == []
    assert (bundler.waiting(), bundler.next_leave()) == (1, 5.0)
    clock.now = 5.0
    assert bundler.next_leave() is None, "it may leave now, and waits for a slot"
    assert next_numbers(bundler, "n2") == [1]
    assert (bundler.waiting(), bundler.next_leave()) == (0, None)


def test_calls_stay_at_a_node_that_is_soon_through_with_them():
    clock = Clock()
    bundler = lined_up(range(4), Places(dict.fromkeys(range(4), "n1")), 1.0, clock)

    for clock.now in (3.0, 6.0, 9.0):
        assert len(next_numbers(bundler, "n1")) == 1
        assert next_numbers(bundler, "n2") == [], "the node has taken a call just now"

    clock.now = 14.0
    assert next_numbers(bundler, "n2") == [3]


def test_a_call_leaves_at_once_where_it_would_wait_longer_than_moving_its_value_takes():
    bundler = lined_up(range(14), Places(dict.fromkeys(range(14), "n1")), 1.0, Clock())

    taken = [number for _ in range(5) for number in next_numbers(bundler, "n2")]

    # The last one has 13 s of work before it, on two slots; the tenth has 4.5 s.
    assert taken == [13, 12, 11, 10]
    assert next_numbers(bundler, "n1") == [0]


def test_calls_whose_values_have_been_copied_to_a_node_are_made_there_first():
    places = Places(dict.fromkeys(range(14), "n1"), at={3: ["n2"], 9: ["n2"]})
    bundler = lined_up(range(14), places, 1.0, Clock())

    taken = [number for _ in range(3) for number in next_numbers(bundler, "n2")]

    assert taken == [9, 3, 13]
    assert bundler.waiting() == 11


def test_calls_that_need_nothing_from_elsewhere_come_first_at_their_own_node():
    also = {0: 2.0, 1: 1.0, 3: 0.5}
    bundler = lined_up(range(5), Places(dict.fromkeys(range(5), "n1"), also=also), 1.0, Clock())

    taken = [number for _ in range(5) for number in next_numbers(bundler, "n1")]

    assert taken == [2, 4, 3, 1, 0]


def test_a_call_whose_other_value_is_elsewhere_does_not_join_the_bundle_of_what_it_waits_for():
    pace = Pace()
    pace.learn(1, 0.0001)
    maker, near, far = (Item(number, pace) for number in range(3))
    bundler = Bundler(1, places=Places({}, also={0: 0.0, 1: 0.0, 2: 0.5}))
    bundler.add(maker, [])
    bundler.add(near, [maker])
    bundler.add(far, [maker])

    assert next_numbers(bundler, "n1") == [0, 1]
    assert next_numbers(bundler, "n1") == []

    bundler.finished(maker)

    assert next_numbers(bundler, "n1") == [2]
