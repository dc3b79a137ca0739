"""Arithmetic on float3, int4 and similar types, for sources without the header "helper_math.h".

"helper_math.h" comes with NVIDIA's samples. Users often copy a kernel without this header. If the
header is not found, `TEXT` is used instead: it defines functions with the same names and meanings.
"""

from __future__ import annotations

from collections.abc import Iterator

# The headers that declare these functions, by the last part of their path.
HEADERS = ("helper_math.h", "cutil_math.h")
_TYPES = ("float", "int", "uint")
_FIELDS = "xyzw"


def _function(result: str, name: str, parameters: str, body: str) -> str:
    return f"inline __host__ __device__ {result} {name}({parameters}) {{ {body} }}"


def _each(vector: str, n: int, element: str) -> str:
    """Return C++ code that returns a vector, such as ``return make_float2(a.x + b.x, a.y + b.y);``.

    `element` is the code for one element. In it, ``@`` stands for x, y, z or w: ``a.@ + b.@``.
    """
    return f"return make_{vector}({', '.join(element.replace('@', f) for f in _FIELDS[:n])});"


def _operators(base: str, n: int) -> Iterator[str]:
    """Yield the operators of a vector type, with a vector or a scalar on either side."""
    vector = f"{base}{n}"
    for sign in "+-*/" if base == "float" else "+-*":
        for left, a in ((vector, "a.@"), (base, "a")):
            for right, b in ((vector, "b.@"), (base, "b")):
                if left == right == base:
                    continue
                body = _each(vector, n, f"{a} {sign} {b}")
                yield _function(vector, f"operator{sign}", f"{left} a, {right} b", body)
        for right in (vector, base):
            body = f"a = a {sign} b;"
            yield _function("void", f"operator{sign}=", f"{vector} &a, {right} b", body)
    if base != "uint":
        yield _function(vector, "operator-", f"{vector} a", _each(vector, n, "-a.@"))


def _conversions(base: str, n: int) -> Iterator[str]:
    """Yield make_float3() and similar functions that take a single number or another vector."""
    vector = f"{base}{n}"
    made = f"make_{vector}"
    yield _function(vector, made, f"{base} s", _each(vector, n, "s"))
    for other in _TYPES:
        if other != base:
            yield _function(vector, made, f"{other}{n} a", _each(vector, n, f"{base}(a.@)"))
    if n < 4:
        yield _function(vector, made, f"{base}{n + 1} a", _each(vector, n, "a.@"))
    if n > 2:
        first = ", ".join(f"a.{f}" for f in _FIELDS[: n - 1])
        for more, last in ((f", {base} s", "s"), ("", "0")):
            body = f"return {made}({first}, {last});"
            yield _function(vector, made, f"{base}{n - 1} a{more}", body)


def _functions(base: str, n: int) -> Iterator[str]:
    """Yield min, max, clamp and dot. For floats, also yield length, normalize, lerp and others."""
    vector = f"{base}{n}"
    least, most = ("fminf", "fmaxf") if base == "float" else ("min", "max")
    for name in (least, most):
        body = _each(vector, n, f"{name}(a.@, b.@)")
        yield _function(vector, name, f"{vector} a, {vector} b", body)
    body = _each(vector, n, "clamp(v.@, a, b)")
    yield _function(vector, "clamp", f"{vector} v, {base} a, {base} b", body)
    body = _each(vector, n, "clamp(v.@, a.@, b.@)")
    yield _function(vector, "clamp", f"{vector} v, {vector} a, {vector} b", body)
    terms = " + ".join(f"a.{f} * b.{f}" for f in _FIELDS[:n])
    yield _function(base, "dot", f"{vector} a, {vector} b", f"return {terms};")
    if base == "int":
        yield _function(vector, "abs", f"{vector} v", _each(vector, n, "abs(v.@)"))
    if base != "float":
        return
    for name, of in (("floorf", "floorf"), ("fracf", "fracf"), ("fabs", "fabsf")):
        yield _function(vector, name, f"{vector} v", _each(vector, n, f"{of}(v.@)"))
    body = _each(vector, n, "fmodf(a.@, b.@)")
    yield _function(vector, "fmodf", f"{vector} a, {vector} b", body)
    yield _function(vector, "lerp", f"{vector} a, {vector} b, float t", "return a + t * (b - a);")
    yield _function("float", "length", f"{vector} v", "return sqrtf(dot(v, v));")
    yield _function(vector, "normalize", f"{vector} v", "return v * rsqrtf(dot(v, v));")
    body = "return i - 2.0f * n * dot(n, i);"
    yield _function(vector, "reflect", f"{vector} i, {vector} n", body)
    body = _each(vector, n, "smoothstep(a.@, b.@, x.@)")
    yield _function(vector, "smoothstep", f"{vector} a, {vector} b, {vector} x", body)


def _lines() -> Iterator[str]:
    yield "#pragma once"
    least = {"float": "fmaxf(a, fminf(v, b))", "int": "max(a, min(v, b))"}
    for base in _TYPES:
        body = f"return {least.get(base, least['int'])};"
        yield _function(base, "clamp", f"{base} v, {base} a, {base} b", body)
    yield _function("float", "lerp", "float a, float b, float t", "return a + t * (b - a);")
    yield _function("float", "fracf", "float v", "return v - floorf(v);")
    body = "float t = clamp((x - a) / (b - a), 0.0f, 1.0f); return t * t * (3.0f - 2.0f * t);"
    yield _function("float", "smoothstep", "float a, float b, float x", body)
    for make in (_conversions, _operators, _functions):
        for base in _TYPES:
            for n in (2, 3, 4):
                yield from make(base, n)
    body = (
        "return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);"
    )
    yield _function("float3", "cross", "float3 a, float3 b", body)


TEXT = "\n".join(_lines()) + "\n"
