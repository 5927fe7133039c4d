"""`python -m diffsim.reference NAME` prints the entry of a name, and one line where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diffsim.reference import lookup
from diffsim.reference.__main__ import main
from diffsim.reference.entries import packages


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("solve", "diffsim.solve", "Solve `operator(x) = right_side`"),
        ("diffsim.losses.L2Misfit", "diffsim.losses.L2Misfit", "L2Misfit(data"),
        ("losses.L2Misfit", "diffsim.losses.L2Misfit", "Weighted least squares"),
        ("ds.Grid", "diffsim.Grid", "from_faces"),
        ("Simulation.value_and_grad", "diffsim.Simulation.value_and_grad", "value_and_grad(loss"),
        ("value_and_grad", "diffsim.value_and_grad", "Args:"),
        ("Dirichlet", "diffsim.Dirichlet", 'Kind: "dirichlet"'),
        ("numpy.sinc", "diffsim.numpy.sinc", "NumPy's"),
        ("diffsim.losses", "diffsim.losses", "HuberMisfit:"),
        ("diffsim", "diffsim", "diffsim.solvers:"),
    ],
)
def test_an_entry_is_found_by_its_name(name: str, title: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0] == title
    assert said in output


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("L2Misfitt", "did you mean diffsim.losses.L2Misfit?"),
        ("isfit", "expected a public name"),  # letters at the end of a name are no name
        ("Simulation.value_and_gradient", "expected a public name"),
        ("Simulation._call", "expected a public name"),
        ("diffsim.nothing.like.this", "python -m diffsim.reference diffsim lists names"),
        ("", "expected a public name"),
    ],
)
def test_a_name_that_is_unknown_gets_one_line(name: str, remedy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert len(shown.err.splitlines()) == 1
    assert remedy in shown.err


@pytest.mark.parametrize("broken", ["diffsim.torch", "diffsim.jax", "diffsim.plot", "diffsim.losses"])
@pytest.mark.parametrize("error", [ImportError("no libcudart"), AttributeError("np.float"), OSError("gone")])
def test_a_broken_package_matters_to_its_own_names_alone(
    broken: str, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of = lookup.entries

    def entries(package: str) -> Any:
        if package == broken:
            raise error
        return of(package)

    monkeypatch.setattr(lookup, "entries", entries)
    monkeypatch.setattr(lookup, "packages", lambda: [*dict.fromkeys([*packages(), broken])])
    assert main(["Simulation.value_and_grad"]) == 0 and main(["diffsim.solvers.Heat"]) == 0
    assert main(["no_such_name_at_all"]) == 2
    assert "expected a public name" in capsys.readouterr().err
    assert main([f"{broken}.Anything"]) == 2
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert f"expected {broken} to be there, got {type(error).__name__} on import ({error}); install what it needs anew" in shown


def test_it_writes_the_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "new" / "pages")]) == 0
    written = {path.name for path in (tmp_path / "new" / "pages").iterdir()}
    assert written == {"README.md", "diffsim.numpy.md", *(f"{package}.md" for package in packages())}
    said = capsys.readouterr().out
    assert said.startswith(f"writing all entries as pages into the folder {tmp_path / 'new' / 'pages'}; with a NAME its entry is printed")
    assert f"wrote {len(written)} pages" in said
