"""Decodes Thrift's compact protocol, in which Parquet files have their metadata, and raises if it is damaged.

A footer has some fifty values for each column of each row group, and a change may read thousands of footers. So only
the wanted fields become objects, and short numbers are decoded in place.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
"""Kinds of values."""
Struct = dict[int, Any]
"""The wanted fields of a struct that it has, by number: `int`, `bytes`, `Struct`, or a list of these."""
Convert = Callable[[Struct, Struct], object]


class ListOf(NamedTuple):
    """A wanted list of a struct, which is decoded.

    Attributes:
        kind: Kind of its values: `I32`, `I64` or `STRUCT`.
        wanted: Wanted fields of structs.
        convert: Makes of each struct what to keep, given the fields before the list and the struct: as a tree of
            objects, they take much more memory than as bytes.
    """

    kind: int
    wanted: Wanted = MappingProxyType({})
    convert: Convert | None = None


ENCODED = object()
"""For a wanted field that stays as it is encoded, as for a list that many files have in common, see `decode_list`."""
Wanted = Mapping[int, Any]
"""Wanted fields of a struct, by `field`: for a number or bytes None, for a list `ListOf`, for a struct its wanted ones.

A field of another kind is as absent as one that is not wanted."""

_KIND_BITS, _KIND = 4, 15
_MAX_DEPTH = 64
_LONG_LIST = 15
_CONTINUES = 0x80
_LONGEST_VARINT_BITS = 70
_MAX_BITS = {I16: 15, I32: 31, I64: 63}
_LENGTHS = {BYTE: 1, DOUBLE: 8, UUID: 16}
_UNWANTED = object()


def field(number: int, kind: int) -> int:
    """A field of a struct: its number in the definition, and the kind of its value."""
    return number << _KIND_BITS | kind


def decode(data: bytes, wanted: Wanted) -> Struct:
    """Decode the struct that some bytes begin with.

    Raises:
        pa.ArrowInvalid: The bytes are damaged.
    """
    try:
        return _struct(data, 0, 0, wanted)[0]
    except IndexError:
        raise damaged("it ends too early") from None


def decode_list(data: bytes, wanted: ListOf) -> list[Any]:
    """Decode a list that was kept as it is encoded.

    Raises:
        pa.ArrowInvalid: The bytes are damaged.
    """
    return _list(data, 0, 0, wanted, {})[0]


def damaged(what: str) -> pa.ArrowInvalid:
    """The error of damaged metadata.

    Args:
        what: What is wrong, as a sentence without its end.
    """
    return pa.ArrowInvalid(f"the metadata is damaged: {what}")


# Each function takes the bytes and the offset at which to begin, and returns the offset after what it decodes or skips.
# Past the end of the bytes it raises IndexError.


def _struct(data: bytes, at: int, depth: int, wanted: Wanted) -> tuple[Struct, int]:
    _require_depth(depth)
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & _KIND
        if head > _KIND:
            number += head >> _KIND_BITS
        else:
            number, at = _integer(data, at)
        want = wanted.get(number << _KIND_BITS | kind, _UNWANTED)
        if want is None:
            value = data[at]
            if kind == BINARY:
                length, at = (value, at + 1) if value < _CONTINUES else _varint(data, at)
                fields[number] = part = data[at : at + length]
                if len(part) < length:
                    raise _too_long()
                at += length
            elif value < _CONTINUES:
                fields[number], at = (value >> 1) ^ -(value & 1), at + 1
            else:
                fields[number], at = _number(data, at, kind)
        elif want is ENCODED:
            begin, at = at, _skip(data, at, kind, depth)
            fields[number] = data[begin:at]
        elif want is _UNWANTED:
            at = at + 1 if I16 <= kind <= I64 and data[at] < _CONTINUES else _skip(data, at, kind, depth)
        elif kind == STRUCT:
            fields[number], at = _struct(data, at, depth + 1, want) if data[at] else ({}, at + 1)
        else:
            fields[number], at = _list(data, at, depth + 1, want, fields)
    return fields, at + 1


def _list(data: bytes, at: int, depth: int, want: ListOf, before: Struct) -> tuple[list[Any], int]:
    kind, size, at = _list_head(data, at)
    if size and kind != want.kind:
        raise damaged("a list has values of another type")
    values: list[Any] = []
    for _ in range(size):
        if kind == STRUCT:
            struct, at = _struct(data, at, depth, want.wanted)
            values.append(want.convert(before, struct) if want.convert else struct)
        else:
            number, at = _number(data, at, kind)
            values.append(number)
    return values, at


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    if I16 <= kind <= I64:
        while data[at] >= _CONTINUES:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = _varint(data, at)
        _require_within(data, at, length)
        return at + length
    if kind in (TRUE, FALSE):
        return at
    _require_depth(depth)
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            kind = head & _KIND
            if head <= _KIND:
                _, at = _integer(data, at)
            at = at + 1 if I16 <= kind <= I64 and data[at] < _CONTINUES else _skip(data, at, kind, depth + 1)
        return at + 1
    if kind in (LIST, SET):
        kind, size, at = _list_head(data, at)
        for _ in range(size):
            at = _skip_element(data, at, kind, depth + 1)
        return at
    if kind == MAP:
        size, at = _varint(data, at)
        kinds, at = (data[at], at + 1) if size else (0, at)
        _require_within(data, at, 2 * size)
        for _ in range(size):
            at = _skip_element(data, at, kinds >> _KIND_BITS, depth + 1)
            at = _skip_element(data, at, kinds & _KIND, depth + 1)
        return at
    if kind in _LENGTHS:
        return at + _LENGTHS[kind]
    raise damaged("it has a value of an unknown type")


def _skip_element(data: bytes, at: int, kind: int, depth: int) -> int:
    """Skip a value of a list or map: there, truth is a byte."""
    return at + 1 if kind in (TRUE, FALSE) else _skip(data, at, kind, depth)


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    head, at = data[at], at + 1
    size, at = (head >> _KIND_BITS, at) if head >> _KIND_BITS < _LONG_LIST else _varint(data, at)
    _require_within(data, at, size)
    return head & _KIND, size, at


def _require_within(data: bytes, at: int, size: int) -> None:
    """Refuse more bytes than there are, or more elements, each of which takes at least one."""
    if size > len(data) - at:
        raise _too_long()


def _too_long() -> pa.ArrowInvalid:
    return damaged("a part is longer than the rest")


def _require_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise damaged("it is nested too deeply")


def _number(data: bytes, at: int, kind: int) -> tuple[int, int]:
    value = data[at]
    if value < _CONTINUES:
        return (value >> 1) ^ -(value & 1), at + 1
    value, at = _integer(data, at)
    if value.bit_length() > _MAX_BITS[kind]:
        raise damaged("it has a number that is too long")
    return value, at


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
