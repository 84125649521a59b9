"""Host settings from wishes and a made-up host."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from ssdbench.errors import HostLacks
from ssdbench.host.topology import NO_TURBO, Interrupt, Topology, cpu_list, cpu_text
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Detect, Host, Idle, IrqAffinity, Preset, Switch
from ssdbench.tuning.confined import require_ours
from ssdbench.tuning.plan import HostPlan, host_plan, irq_plan, preference_settings

# Two packages of two CPUs; each package shares a cache.
CACHES = {0: frozenset({0, 1}), 1: frozenset({0, 1}), 2: frozenset({2, 3}), 3: frozenset({2, 3})}
AHCI = (Interrupt(24, "ahci[0000:00:1f.2]", (0, 1, 2, 3), (3,)),)


def queues(count: int, *, effective: Sequence[int] = (0,)) -> tuple[Interrupt, ...]:
    return tuple(
        Interrupt(30 + n, f"nvme0q{n + 1}", (0, 1, 2, 3), tuple(effective)) for n in range(count)
    )


def host(
    interrupts: tuple[Interrupt, ...] = AHCI, *, hardware_queues: int = 1, scales: bool = True
) -> Topology:
    return Topology(
        cpus=(0, 1, 2, 3),
        shares_cache=CACHES,
        governors=("performance", "powersave") if scales else (),
        policies=("/sys/devices/system/cpu/cpufreq/policy0",) if scales else (),
        turbo=NO_TURBO if scales else "",
        idle=True,
        irqbalance=True,
        interrupts=interrupts,
        hardware_queues=hardware_queues,
        schedulers=("none", "mq-deadline"),
        queue=frozenset({"scheduler", "nr_requests", "nomerges", "io_poll"}),
    )


def values(plan: HostPlan) -> dict[str, str]:
    return {setting.attribute.rsplit("/", 1)[-1]: setting.value for setting in plan.settings}


def test_the_default_changes_nothing() -> None:
    assert host_plan(Host(), host(), "d") == HostPlan()


@pytest.mark.parametrize(
    ("wish", "cpu"),
    [(IrqAffinity.LOCAL, "2"), (IrqAffinity.NEIGHBOUR, "3"), (IrqAffinity.REMOTE, "0")],
)
def test_an_interrupt_goes_to_its_place_relative_to_the_submitters(
    wish: IrqAffinity, cpu: str
) -> None:
    plan = irq_plan(wish, [2], host())

    assert [(s.attribute, s.value) for s in plan.settings] == [
        ("/proc/irq/24/smp_affinity_list", cpu)
    ]


def test_several_interrupts_are_spread_over_all_cpus() -> None:
    several = tuple(Interrupt(40 + n, f"ahci{n}", (0,), (0,)) for n in range(5))

    plan = irq_plan(IrqAffinity.SPREAD, [0], host(several))

    assert [setting.value for setting in plan.settings] == ["0", "1", "2", "3", "0"]


def test_managed_interrupts_pin_the_submitters_instead() -> None:
    plan = irq_plan(IrqAffinity.REMOTE, (), host(queues(1, effective=[0])))

    assert plan.settings == ()
    assert plan.submitters == (2, 3)
    assert "submitters are pinned instead" in plan.notes[0]


@pytest.mark.parametrize("wish", [IrqAffinity.REMOTE, IrqAffinity.NEIGHBOUR])
def test_with_a_queue_per_cpu_no_distance_can_be_had(wish: IrqAffinity) -> None:
    plan = irq_plan(wish, [0], host(queues(4), hardware_queues=4))

    assert (plan.settings, plan.submitters) == ((), ())
    assert f"{wish} is not possible" in plan.notes[1]
    assert "moves the queue" in plan.notes[1]


def test_a_place_that_no_cpu_has_is_refused_with_a_way_out() -> None:
    with pytest.raises(HostLacks, match="remote is not possible") as refused:
        irq_plan(IrqAffinity.REMOTE, [0, 2], host())

    assert "fio_cpus" in refused.value.hint


def test_an_unknown_scheduler_is_answered_with_those_that_exist() -> None:
    with pytest.raises(HostLacks, match="no scheduler cfq") as refused:
        host_plan(Host(scheduler="cfq"), host(), "d")

    assert "none, mq-deadline" in refused.value.hint


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        (Host(governor="ondemand"), "no CPU frequency governor ondemand"),
        (Host(wbt_lat_usec="0"), "no setting wbt_lat_usec"),
        (Host(fio_cpus=(7,)), "no CPU 7"),
        (Host(io_poll="1"), "io_poll cannot be 1: this drive has no polled queues"),
    ],
)
def test_what_is_not_offered_is_a_sentence(wishes: Host, sentence: str) -> None:
    with pytest.raises(HostLacks, match=sentence):
        host_plan(wishes, host(), "d")


def test_polling_that_is_there_already_is_no_setting() -> None:
    polling = replace(host(), polls=True)

    assert host_plan(Host(io_poll="1"), polling, "d").settings == ()
    with pytest.raises(HostLacks, match="io_poll cannot be 0: this drive has polled queues"):
        host_plan(Host(io_poll="0"), polling, "d")


def test_a_host_without_frequency_scaling_says_so() -> None:
    with pytest.raises(HostLacks, match="does not scale"):
        host_plan(Host(governor="performance"), host(scales=False), "d")
    with pytest.raises(HostLacks, match="does not let turbo be switched"):
        host_plan(Host(turbo=Switch.OFF), host(scales=False), "d")


def test_isolate_asks_for_everything_and_names_itself() -> None:
    plan = host_plan(Host(preset=Preset.ISOLATE), host(), "d")

    assert plan.preset == "isolate"
    assert plan.hold_idle
    assert (plan.own_cpus, plan.fio_cpus) == ((0,), (1, 2, 3))
    assert values(plan) == {
        "irqbalance": "inactive",
        "scaling_governor": "performance",
        "no_turbo": "1",
        "smp_affinity_list": "1",
    }


def test_what_the_profile_sets_goes_before_the_preset() -> None:
    plan = host_plan(Host(preset=Preset.ISOLATE, governor="powersave"), host(), "d")

    assert "powersave" in {setting.value for setting in plan.settings}
    assert "performance" not in {setting.value for setting in plan.settings}


def test_what_a_preset_cannot_have_is_a_note_and_no_error() -> None:
    plan = host_plan(Host(preset=Preset.ISOLATE), host((), scales=False), "d")

    assert [note.split(" stays")[0] for note in plan.notes] == [
        "isolate: governor",
        "isolate: turbo",
        "isolate: irq_affinity",
    ]


def test_every_change_is_a_line_with_its_reason() -> None:
    plan = host_plan(Host(scheduler="none", idle=Idle.SHALLOW, own_cpus=(0,)), host(), "d")

    lines = plan.lines()

    assert lines[0] == (
        "d queue/scheduler = none: the scheduler decides order and merging of requests"
    )
    assert lines[1].startswith("/dev/cpu_dma_latency = 0: ")
    assert lines[2].startswith("CPUs of fio = 1-3: ")
    assert lines[3].startswith("CPUs of ssdbench = 0: ")


@pytest.mark.parametrize(("text", "cpus"), [("0", (0,)), ("0-2,5", (0, 1, 2, 5)), ("", ())])
def test_cpu_lists_are_read_and_written_as_the_kernel_does(
    text: str, cpus: tuple[int, ...]
) -> None:
    assert cpu_list(text) == cpus
    assert cpu_text(cpus) == text


def test_no_scheduler_is_had_already_where_there_is_none_to_choose() -> None:
    planned = host_plan(Host(scheduler="none"), Topology(cpus=(0,)), "d")

    assert planned.settings == ()
    with pytest.raises(HostLacks, match="no scheduler bfq"):
        host_plan(Host(scheduler="bfq"), Topology(cpus=(0,)), "d")


PROFILES = Path(__file__).parents[3] / "profiles"


@pytest.mark.parametrize("path", sorted(PROFILES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_profile_fits_a_drive_and_a_file_unless_it_needs_a_scheduler(path: Path) -> None:
    profile = load_profile(path.read_text(), path.name)
    wishes, simulated = profile.host, (profile.target or "").startswith("sim:")

    on_drive = host_plan(wishes, host(), "d")

    assert simulated == (path.stem == "demo" or path.parent.name == "papers")
    waits = wishes.block is Detect.DETECT
    wanted = {} if simulated or waits else {"scheduler": "none"}
    assert values(on_drive) == wanted
    assert bool(on_drive.notes) == waits == (path.stem == "block-preference")
    if waits:
        with pytest.raises(HostLacks, match="no scheduler ssdb_bpref") as refused:
            host_plan(wishes, Topology((0,)), "f")
        assert refused.value.hint == "It offers no scheduler."
    elif path.stem == "idle-wake":  # CPUs that wake up would count as the drive's cost
        with pytest.raises(HostLacks, match="cannot limit idle states") as refused:
            host_plan(wishes, Topology((0,)), "f")
        assert refused.value.hint == "Set `idle: keep`."
    else:
        assert host_plan(wishes, Topology((0,)), "f") == HostPlan()


def found(**fields: object) -> BlockSizeFound:
    sure = {"answer": "mapping unit 16 KiB", "write_bytes": 16384, "confidence": 0.99}
    return BlockSizeFound.model_validate({**sure, **fields})


def test_a_block_that_is_found_is_set_in_the_scheduler_with_its_first_boundary() -> None:
    made = preference_settings("ssdb_bpref", found(write_bytes=1 << 20, phase_bytes=4096), "d")

    assert [(one.attribute, one.value, one.drive) for one in made] == [
        ("queue/scheduler", "bpref-cfq", "d"),
        ("queue/iosched/block_bytes", "1048576", "d"),
        ("queue/iosched/block_phase_bytes", "4096", "d"),
    ]
    assert preference_settings("bpref-as", found(), "d")[0].value == "bpref-as"
    for one in made:
        require_ours(one.backend, one.attribute, one.value)


@pytest.mark.parametrize(
    "unsure",
    [{"write_bytes": None}, {"write_bytes": 4096}, {"confidence": 0.8}, {"confidence": None},
     {"at_most": True}],
)  # fmt: skip
def test_without_a_sure_answer_nothing_is_set(unsure: dict[str, object]) -> None:
    assert preference_settings("ssdb_bpref", found(**unsure), "d") == []


def test_a_scheduler_that_waits_for_its_block_is_not_set_before_the_run() -> None:
    plan = host_plan(Host(scheduler="ssdb_bpref", block=Detect.DETECT), host(), "d")

    assert plan.settings == ()
    (note,) = plan.notes
    assert "ssdb_bpref is set later, and only if the run finds the drive's block size" in note


def test_another_scheduler_cannot_wait_for_a_block() -> None:
    with pytest.raises(ValidationError, match="needs one of these as scheduler: ssdb_bpref"):
        Host(scheduler="none", block=Detect.DETECT)
