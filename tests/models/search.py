"""Searches every state of a model, those that take fewest steps first, so that a counterexample is a shortest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

State = TypeVar("State")


class Found(NamedTuple, Generic[State]):
    """The result of a search.

    Attributes:
        states: Number of different states.
        steps: Number of steps between them.
        problem: What is wrong with the last state; empty if nothing is.
        time_line: The steps to it.
    """

    states: int
    steps: int
    problem: str = ""
    time_line: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The counterexample, a step a line."""
        lines = (f"{number:3} {step}" for number, step in enumerate(self.time_line, 1))
        return (
            "\n".join((f"{self.problem}:", *lines)) if self.problem else f"{self.states:,} states, {self.steps:,} steps"
        )


def search(
    start: State,
    successors: Callable[[State], Iterable[tuple[str, State]]],
    violation: Callable[[State, State], str],
    max_states: int = 10_000_000,
) -> Found[State]:
    """Visit every state that can be reached, until one is wrong.

    Args:
        successors: The states that can follow one, each with the name of the step.
        violation: What is wrong with a step from one state to another, or with the other; empty if nothing is.
        max_states: More are an error: the bounds of the model are too wide.
    """
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    frontier, steps = [start], 0

    def time_line(state: State) -> tuple[str, ...]:
        line: list[str] = []
        step = came_from[state]
        while step:
            line.append(step[1])
            step = came_from[step[0]]
        return tuple(reversed(line))

    while frontier:
        following = []
        for state in frontier:
            for name, after in successors(state):
                steps += 1
                problem = violation(state, after)
                if problem:
                    return Found(len(came_from), steps, problem, (*time_line(state), name))
                if after not in came_from:
                    came_from[after] = (state, name)
                    following.append(after)
        if len(came_from) > max_states:
            message = f"more than {max_states:,} states"
            raise ValueError(message)
        frontier = following
    return Found(len(came_from), steps)
