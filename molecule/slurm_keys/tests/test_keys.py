"""Every key edited under running jobs by the real role, in batches: no job ends, is requeued or loses a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
import yaml

from tests.kit import ROOT
from tests.kit.edits import Edit, batches, edits, table
from tests.kit.keys_run import Bench, problems

testinfra_hosts = ["ansible://slurm_controllers"]

BASE = yaml.safe_load((ROOT / "molecule/slurm_keys/slurm_keys.bedplate.yml").read_text())
BATCHES = batches(edits())


@pytest.fixture(scope="module")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that writes a line at once: the whole takes half an hour, and halving a batch that hurts takes minutes."""
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert reporter is not None
    assert capture is not None

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\n{text}")

    return write


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Iterator[Bench]:
    """Yield the scenario's cluster with its jobs."""
    bench = Bench("slurm_keys", BASE, tmp_path_factory.mktemp("keys"))
    bench.prepare()
    yield bench
    bench.workload.stop()
    outcome = bench.run()
    say(f"the base again: rc {outcome.rc}; without jobs Slurm says\n{bench.resume()}")
    assert outcome.rc == 0, outcome
    numbers = Counter(word for entries in table().values() for entry in entries.values() for word in entry)
    say(
        f"FULL RESULT: {numbers['to']} keys edited in {bench.runs} runs ({numbers['refused']} refused, {numbers['waits']} wait), "
        f"{numbers['by']} by another key, {numbers['not']} not, with a reason"
    )


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch[0]}-{len(batch)}")
def test_edits_hurt_no_job(bench: Bench, say: Callable[[str], None], batch: Sequence[Edit]) -> None:
    bench.ready()
    outcome = bench.run(batch)
    found = problems(batch, outcome)
    say(f"{', '.join(map(str, batch))}: {outcome.seconds:.0f} s")
    if found:
        say("\n".join(found))
    if found and len(batch) > 1:
        culprits = ["+".join(map(str, part)) for part in bench.guilty(batch)]
        found.insert(0, f"of this batch, by itself: {', '.join(culprits)}")
    assert not found, "\n".join(found)
