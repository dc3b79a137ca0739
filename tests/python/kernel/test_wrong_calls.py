"""The public API refuses every call with one wrong argument, and the error names the argument."""

import subprocess
import sys

import numpy as np
import public_calls
import pytest
import wrong_calls
import wrong_values

import coalesce


def test_the_calls_are_right_but_for_the_wrong_argument() -> None:
    for call in wrong_calls.calls():
        by_place = [a.good for key, a in call.arguments.items() if key.startswith("*")]
        by_name = {k: a.good for k, a in call.arguments.items() if not k.startswith("*")}
        call.function(*by_place, **by_name)


@pytest.mark.parametrize("seed", range(4))
def test_wrong_calls_are_refused_by_name(seed: int) -> None:
    faults = [str(outcome) for outcome in wrong_calls.outcomes(300, seed) if outcome.fault]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("interface", wrong_values.BROKEN_INTERFACES, ids=str)
def test_a_broken_array_interface_is_named(interface: object) -> None:
    broken = wrong_values.GpuLike(interface)
    with pytest.raises((TypeError, ValueError, coalesce.DeviceUnavailable), match=r"\ba\b"):
        coalesce.transpose(broken, device="sim")
    with pytest.raises((TypeError, ValueError, coalesce.DeviceUnavailable), match="argument `x`"):
        coalesce.Kernel(public_calls.SCALE, device="sim")[1, 32](broken, 2.0, 5)


def test_attributes_of_foreign_objects_are_not_read() -> None:
    """The pytest plugin looks only at the type of compared objects."""
    from coalesce import _pytest_plugin

    assert _pytest_plugin.pytest_assertrepr_compare("==", wrong_values.Hostile(), 0) is None
    p = coalesce.profile("transpose", np.ones((32, 32), np.float32), variant="tiled")
    shown = _pytest_plugin.pytest_assertrepr_compare("==", p.bank_conflicts, 0)
    assert shown is not None
    assert shown[0] == f"{p.bank_conflicts:d} == 0"
    assert _pytest_plugin.pytest_assertrepr_compare("==", wrong_values.Hostile(), 0) is None


def test_the_pytest_plugin_replaces_no_assertion_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from coalesce import _pytest_plugin
    from coalesce.profiling import assertions

    p = coalesce.profile("transpose", np.ones((32, 32), np.float32), variant="tiled")
    assert p.bank_conflicts
    hostile = wrong_values.Hostile()
    assert _pytest_plugin.pytest_assertrepr_compare("==", p.bank_conflicts, hostile) is None

    def broken(*_: object) -> list[str]:
        raise ImportError("no rich")

    monkeypatch.setattr(assertions, "explanation", broken)
    assert _pytest_plugin.pytest_assertrepr_compare("==", p.bank_conflicts, 0) is None


def test_the_pytest_plugin_costs_no_import() -> None:
    """pytest loads the plugin in every project, even if the package cannot be used there."""
    code = "import sys, coalesce._pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.split(".")[0] in ("coalesce", "numpy")}
    assert loaded <= {"coalesce", "coalesce._pytest_plugin", "coalesce.common",
                      "coalesce.common.version"}  # fmt: skip


@pytest.mark.parametrize(
    ("filename", "message"),
    [
        ('a"b.cu', "`filename` has the character '\"'"),
        ("a\\b.cu", "`filename` has the character"),
        ("a\nb.cu", r"`filename` has the character '\\n'"),
        ("", "`filename` is empty"),
    ],
)
def test_file_names_that_break_the_assembler(filename: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coalesce.Kernel(public_calls.SCALE, device="sim", filename=filename)


def test_a_source_may_begin_with_a_byte_order_mark() -> None:
    x = np.ones(3, np.float32)
    coalesce.Kernel("\ufeff" + public_calls.SCALE, device="sim")[1, 32](x, 2.0, 3)
    assert x.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("method", ["launch", "get_function", "profile", "step"])
def test_messages_name_the_public_class(method: str) -> None:
    """Users do not know the base classes of `Kernel`."""
    with pytest.raises(TypeError, match=rf"^Kernel\.{method}\(\) "):
        getattr(coalesce.Kernel, method)()
    with pytest.raises(TypeError, match=r"^Kernel\.__init__\(\) got an unexpected"):
        coalesce.Kernel("", name="f")  # type: ignore[call-arg]
