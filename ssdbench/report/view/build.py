"""A stored run as one page; the order of its sections is decided here."""

from collections import Counter
from dataclasses import replace

from ssdbench.model.result import RunResult
from ssdbench.report.label import simulated_label
from ssdbench.report.read import StoredRun
from ssdbench.report.view import (
    acceptance,
    capacity,
    conditions,
    findings,
    stages,
    steady,
    words,
    workloads,
)
from ssdbench.report.view.headline import headline
from ssdbench.report.view.page import Page, Section
from ssdbench.report.view.stamp import ASKED, COMPARED, IN_PART, beside_plan, stamp


def page(run: StoredRun) -> Page:
    """Everything that the report shows, in words and numbers."""
    result = run.result
    over = stamp(result)
    return Page(
        title=result.title,
        run_id=result.run_id,
        when=words.moment(result.started_at),
        target=result.target.name,
        version=result.ssdbench_version,
        verdict=over.word,
        tone=over.tone,
        verdict_meaning=over.meaning,
        reasons=_reasons(result, over.word),
        proofs=findings.proofs(result),
        simulated=simulated_label(result.target),
        headline=headline(result),
        workloads=workloads.workloads(result),
        rest=workloads.rest(result),
        sections=_sections(run),
    )


def _reasons(result: RunResult, word: str) -> list[str]:
    if word in (ASKED, COMPARED):
        return []
    return [beside_plan(result)] if word == IN_PART else findings.reasons(result)


def _sections(run: StoredRun) -> list[Section]:
    result = run.result
    ordered = [
        *acceptance.sections(result),
        findings.section(result),
        *capacity.sections(result),
        steady.section(run),
    ]
    ordered += stages.sections(run)
    ordered += [conditions.drive(result), conditions.test(result)]
    ordered.append(conditions.host(run))
    ordered.append(conditions.provenance(run))  # last of those that read: it names what was missing
    return _told_apart([*ordered, conditions.glossary()])


def _told_apart(sections: list[Section]) -> list[Section]:
    """Sections of one title numbered, so that the links to them differ."""
    titles = Counter(section.title for section in sections)
    seen: Counter[str] = Counter()
    found = []
    for section in sections:
        seen[section.title] += 1
        of = titles[section.title]
        number = f", {seen[section.title]} of {of}" if of > 1 else ""
        found.append(replace(section, title=section.title + number))
    return found
