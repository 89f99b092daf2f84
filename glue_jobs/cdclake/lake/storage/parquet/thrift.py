"""Decodes Thrift's compact protocol, in which Parquet files have their metadata, and raises if it is damaged.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
"""Kinds of values."""
Struct = dict[tuple[int, int], Any]
"""A struct: its fields by number and kind. Readers treat a field of another kind than they expect as absent.

Values are `bool` (of the kind `TRUE`), `int`, `bytes`, `Struct` or `List`. Of a map, the keys and values alternate."""


class List(NamedTuple):
    """A list or set."""

    kind: int
    values: list[Any]


_MAX_DEPTH = 64
_LONG_LIST = 15
_CONTINUES = 0x80
_LONGEST_VARINT_BITS = 70
_MAX_BITS = {I16: 15, I32: 31, I64: 63}


Convert = Callable[[Struct, Struct], object]


def decode(data: bytes, long_list: int = 0, convert: Convert | None = None) -> Struct:
    """Decode the struct that some bytes begin with. What its fields mean is not needed.

    Args:
        long_list: Number of a field that is a long list of structs.
        convert: Makes of each of them what to keep, given the fields before and the struct: as a tree of objects, they
            take much more memory than as bytes.

    Raises:
        pa.ArrowInvalid: The bytes are damaged.
    """
    try:
        return _struct(data, 0, 0, long_list, convert)[0]
    except IndexError:
        raise damaged("it ends too early") from None


def damaged(what: str) -> pa.ArrowInvalid:
    """The error of damaged metadata.

    Args:
        what: What is wrong, as a sentence without its end.
    """
    return pa.ArrowInvalid(f"the metadata is damaged: {what}")


# Each function takes the bytes and the offset at which to begin, and returns a value and the offset after it. Past the
# end of the bytes it raises IndexError.


def _struct(data: bytes, at: int, depth: int, long_list: int = 0, convert: Convert | None = None) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        kind = head & 15
        if kind in (TRUE, FALSE):
            fields[number, TRUE] = kind == TRUE
        elif convert and kind == LIST and number == long_list:
            fields[number, kind], at = _list(data, at, depth, partial(convert, fields))
        else:
            fields[number, kind], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if I16 <= kind <= I64:
        value, at = _integer(data, at)
        if value.bit_length() > _MAX_BITS[kind]:
            raise damaged("it has a number that is too long")
        return value, at
    if kind == BINARY:
        length, at = _varint(data, at)
        return _bytes(data, at, length)
    if depth > _MAX_DEPTH:
        raise damaged("it is nested too deeply")
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list(data, at, depth + 1)
    if kind == MAP:
        return _map(data, at, depth + 1)
    if kind in (BYTE, TRUE, FALSE):  # of a list, truth is a byte
        return data[at], at + 1
    if kind in (DOUBLE, UUID):
        return _bytes(data, at, 8 if kind == DOUBLE else 16)
    raise damaged("it has a value of an unknown type")


def _list(data: bytes, at: int, depth: int, convert: Callable[[Struct], object] | None = None) -> tuple[List, int]:
    head, at = data[at], at + 1
    size, at = (head >> 4, at) if head >> 4 < _LONG_LIST else _varint(data, at)
    _require_within(data, at, size)
    values = []
    for _ in range(size):
        value, at = _value(data, at, head & 15, depth)
        values.append(convert(value) if convert and head & 15 == STRUCT else value)
    return List(head & 15, values), at


def _map(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    size, at = _varint(data, at)
    values: list[Any] = []
    kinds, at = (data[at], at + 1) if size else (0, at)
    _require_within(data, at, 2 * size)
    for i in range(2 * size):
        value, at = _value(data, at, kinds & 15 if i % 2 else kinds >> 4, depth)
        values.append(value)
    return values, at


def _require_within(data: bytes, at: int, size: int) -> None:
    """Refuse more bytes than there are, or more elements, each of which takes at least one."""
    if size > len(data) - at:
        raise damaged("a part is longer than the rest")


def _bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    _require_within(data, at, length)
    return data[at : at + length], at + length


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < _CONTINUES:
        return value, at + 1
    value, shift = value - _CONTINUES, 7
    while shift < _LONGEST_VARINT_BITS:
        at += 1
        byte = data[at]
        if byte < _CONTINUES:
            return value | byte << shift, at + 1
        value |= (byte - _CONTINUES) << shift
        shift += 7
    raise damaged("it has a number that is too long")
