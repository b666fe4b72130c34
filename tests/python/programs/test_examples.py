"""The programs of examples/python do what they say; those of other packages have tests of their own."""

import pathlib

from ranks import run, said

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "python"


def test_five_lines():
    results = run(EXAMPLES / "five_lines.py", ranks=4, timeout=120)
    ends = [(r.status, r.stdout) for r in results]
    assert ends == [(0, f"rank {rank} of 4: 400 batches\n") for rank in range(4)], said(results)


def test_five_lines_alone():
    (alone,) = run(EXAMPLES / "five_lines.py", ranks=1)
    assert alone.stdout == "rank 0 of 1: 100 batches\n", alone.stderr


def test_digits(tmp_path):
    import torch

    results = run(EXAMPLES / "digits.py", ranks=3, timeout=120, args=(str(tmp_path / "digits.pt"),))
    assert [r.status for r in results] == [0, 0, 0], said(results)
    assert results[1].stdout == results[2].stdout == ""
    lines = results[0].stdout.splitlines()
    # 500 samples a rank make 16 batches, the last of which is smaller.
    assert [line.split()[0] for line in lines] == [str(3 * 16 * epoch) for epoch in range(1, 6)]
    assert float(lines[-1].split()[-1]) > 0.8
    saved = torch.load(tmp_path / "digits.pt", weights_only=True)
    plain = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    plain.load_state_dict(saved["model"])
    torch.optim.Adam(plain.parameters()).load_state_dict(saved["optimizer"])


def test_notebook():
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    results = [output["data"]["text/plain"] for output in shown if output.output_type == "execute_result"]
    assert results == ["[400, 400, 400, 400]", "True"]
