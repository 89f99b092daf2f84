"""S3's events and the function, the Controller, the jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.process_table import process_tables
from cdclake.control.run.small_loads import SmallLoads
from cdclake.errors import CdclakeError, JobRunError, LeaseLostError, NoRoomError, RetryableError
from cdclake.lake.operations.job import load_planned
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.ports import JobRun, JobState
from cdclake_devkit.simulate.actors.rows import table_run
from cdclake_devkit.simulate.scheduler import Process
from cdclake_devkit.simulate.world import LAKE, PREFIX, RAW
from on_raw_file.handler import Dependencies, handle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from random import Random

    from cdclake.control.run.planned_round import DueLoad
    from cdclake.model.table.name import TableName
    from cdclake_devkit.simulate.world import World

RETRY_SECONDS = (60.0, 120.0)
"""After which Lambda repeats an asynchronous call that failed."""
FUNCTION_SECONDS = 900.0
_TASK_SECONDS = (0.0, 0.0, 0.0, 2.0, 30.0, 500.0)
"""How long each task of the engine takes: also longer than a lease, which is renewed meanwhile."""
_LOST, _TWICE = 0.1, 0.2


class Jobs:
    """Glue: starts runs of the jobs after a while, and sends an event when a Spark run ends badly."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._runs: dict[tuple[str, str], JobRun] = {}
        self._of_process: dict[str, tuple[str, str]] = {}
        world.kills.append(self._was_killed)

    def of(self, process: Process) -> _JobsOf:
        """The job runner, for a process whose runs are named after it."""
        return _JobsOf(self, process)

    def start(self, parent: Process, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id."""
        world = self._world
        process = world.process(parent.child("process" if job == JOB_PROCESS_TABLE else "load"))
        chance = world.chance(f"start {process.name}")
        if world.has_faults and chance.random() < 0.02:
            raise NoRoomError("Glue has no room", remedy="Wait")
        self._runs[job, process.name] = JobRun(process.name, JobState.ACTIVE, "WAITING", "", dict(arguments))
        self._of_process[process.name] = job, process.name
        process.run_id, process.parent = process.name, parent.holder
        if job == JOB_PROCESS_TABLE and world.case.small_changes and not isinstance(parent, _Function):
            world.counts["calls of the function for small changes"] += 1
            self._call_function(process.name, arguments, chance.choice((0.5, 0.5, 90.0)))
            return process.name
        work = self._process_table if job == JOB_PROCESS_TABLE else partial(self._load, job=job)
        delay = chance.choice((2.0, 20.0, 20.0, 400.0)) if world.has_faults else 20.0
        world.counts[f"runs of {job}"] += 1
        world.scheduler.spawn(process, lambda: self._run(process, job, arguments, work), delay)
        return process.name

    def get(self, job: str, run_id: str) -> JobRun:
        """The state of a run."""
        if (job, run_id) not in self._runs:
            raise JobRunError("The job run does not exist", job=job, run=run_id)
        return self._runs[job, run_id]

    def _run(
        self,
        process: Process,
        job: str,
        arguments: Mapping[str, str],
        work: Callable[[Process, Mapping[str, str]], str],
    ) -> None:
        self._set(job, process.name, JobState.ACTIVE, "RUNNING")
        self._world.note(process, f"begins: {job} for {', '.join(_names(arguments))}")
        try:
            error = work(process, arguments)
        except CdclakeError as problem:
            error = str(problem)
        process.is_over = True
        self._world.note(process, f"ends: {error or 'good'}")
        self._end(job, process.name, JobState.FAILED if error else JobState.SUCCEEDED, error)

    def _call_function(self, run_id: str, arguments: Mapping[str, str], delay: float, attempt: int = 0) -> None:
        """Lambda calls the function for small changes, again with the same request if it dies or fails."""
        world = self._world
        process = _Function(f"{run_id}.try{attempt}", world.process(run_id).skew_seconds)

        def again() -> None:
            if attempt < len(RETRY_SECONDS):
                self._call_function(run_id, arguments, RETRY_SECONDS[attempt], attempt + 1)

        def work() -> None:
            ports = world.ports(process, self.of(process))
            small = SmallLoads(run_id, lambda due: self._load_due(process, run_id, due), FUNCTION_SECONDS)
            world.note(process, f"begins: small changes of {', '.join(_names(arguments))}")
            report = process_tables(_paths(arguments), LAKE, "", run_id, ports, {}, world.scheduler.sleep, small)
            process.is_over = True
            failures = [table.failure for table in report.tables if table.failure]
            world.note(process, f"ends: {'; '.join(map(str, failures)) or 'good'}")
            if any(isinstance(one, RetryableError) and not isinstance(one, LeaseLostError) for one in failures):
                again()

        process.was_killed, process.run_id = again, run_id
        world.scheduler.spawn(process, work, delay)

    def _process_table(self, process: Process, arguments: Mapping[str, str]) -> str:
        ports = self._world.ports(process, self.of(process))
        report = process_tables(_paths(arguments), LAKE, "", process.name, ports, {}, self._world.scheduler.sleep)
        return str(report.to_json()["error"] or "")

    def _load(self, process: Process, arguments: Mapping[str, str], job: str) -> str:
        world = self._world
        ports = world.ports(process, self.of(process))

        def load(due: DueLoad) -> None:
            self._load_due(process, process.name, due)

        host = Host(job, arguments[Argument.LEASE_HOLDER])
        report = bring_up_to_date(_paths(arguments), LAKE, "", process.name, ports, load, host)
        return str(report.to_json()["error"] or "")

    def _load_due(self, process: Process, run_id: str, due: DueLoad) -> None:
        world = self._world
        run = table_run(world, process, due.state, due.changes, due.token, run_id, due.note_file)
        seconds = world.chance(f"work {process.name}").choice(_TASK_SECONDS)

        def work() -> None:
            if world.has_faults:  # then tables have time to get well
                world.scheduler.sleep(seconds)

        load_planned(run, due, InProcessBackend(before_task=work))

    def _was_killed(self, process: Process) -> None:
        if isinstance(process, _Function):
            process.was_killed()
        if process.name in self._of_process:
            job, run_id = self._of_process[process.name]
            delay = self._world.chance(f"death {run_id}").choice((1.0, 30.0))
            glue = self._world.process(f"{run_id}.death")
            self._world.scheduler.spawn(glue, lambda: self._end(job, run_id, JobState.FAILED, "killed"), delay)

    def _set(self, job: str, run_id: str, state: JobState, detail: str, error: str = "") -> None:
        self._runs[job, run_id] = self._runs[job, run_id]._replace(state=state, detail=detail, error=error)

    def _end(self, job: str, run_id: str, state: JobState, error: str) -> None:
        self._set(job, run_id, state, state.value, error)
        if state is JobState.SUCCEEDED or job == JOB_PROCESS_TABLE:
            return
        chance = self._world.chance(f"event {run_id}")
        for number in range(_times_delivered(self._world, chance)):
            event = {"source": "aws.glue", "detail": {"jobName": job, "jobRunId": run_id, "state": "FAILED"}}
            delay = chance.choice((2.0, 2.0, 60.0, 1200.0))
            send_event(self._world, self, f"{run_id}.event{number}", event, delay)


class _Function(Process):
    """A call of the function for small changes. The runs that it starts are those of jobs."""

    was_killed: Callable[[], None]


class _JobsOf:
    """A `JobRunner` for one process."""

    def __init__(self, jobs: Jobs, process: Process) -> None:
        self._jobs, self._process = jobs, process

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        return self._jobs.start(self._process, job, arguments)

    def get(self, job: str, run_id: str) -> JobRun:
        return self._jobs.get(job, run_id)


def _times_delivered(world: World, chance: Random) -> int:
    if not world.has_faults:
        return 1
    draw = chance.random()
    return 0 if draw < _LOST else 2 if draw < _TWICE else 1


def _paths(arguments: Mapping[str, str]) -> list[str]:
    return parse_paths(arguments[Argument.PATHS])


def _names(arguments: Mapping[str, str]) -> list[str]:
    return [path.split("/")[-2] for path in _paths(arguments)]


def send_event(world: World, jobs: Jobs, name: str, event: Mapping[str, Any], delay: float, attempt: int = 0) -> None:
    """Let the function of raw files take an event, again if it fails."""
    process = world.process(name)

    def work() -> None:
        ports = world.ports(process, jobs.of(process))
        try:
            outcomes, errors = handle(event, Dependencies(ports.states, ports.jobs, PREFIX), world.time())
        except CdclakeError as error:
            outcomes, errors = {}, [str(error)]
        shown = ", ".join(f"{path.split('/')[-2]} {outcome}" for path, outcome in outcomes.items())
        world.note(process, f"the function: {shown or 'nothing'}{': ' if errors else ''}{'; '.join(errors)}")
        if errors and attempt < len(RETRY_SECONDS):
            send_event(world, jobs, f"{name}.again", event, RETRY_SECONDS[attempt], attempt + 1)

    world.scheduler.spawn(process, work, delay)


def run_controller(world: World, jobs: Jobs, name: str, only: Collection[TableName] = ()) -> None:
    """What the workflow starts every hour, and an operator for some tables."""
    process = world.process(name)

    def work() -> None:
        ports = world.ports(process, jobs.of(process))
        try:
            inputs = PlanInputs(world.store(process, RAW), ports.states, RAW, PREFIX)
            summary = execute(plan(inputs, world.time(), only), ports.states, ports.jobs, world.time)
        except CdclakeError as error:
            world.note(process, f"ends: {error}")
            return
        started = [f"{one.planned.state.name.table} {one.outcome}" for one in summary.tables if one.outcome]
        world.note(process, f"ends: {', '.join(started) or 'nothing due'}")

    world.scheduler.spawn(process, work)
