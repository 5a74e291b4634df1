"""``prescope run --retention``: rules side by side, on text of the shipped model."""

from prescope.cli import main


def test_rules_of_retention_are_compared_on_the_same_text(answer, tmp_path):
    from json_contract import Run

    run = answer(
        Run, "run", "tiny", "--backend", "sim", "--batch", "1", "--tokens", "10",
        "--policies", "on-demand", "--retention", "static, lru", "--traces", tmp_path,
    )  # fmt: skip
    still, lru = run.rows
    assert [row.retention for row in run.rows] == ["static", "lru"]
    assert still.tokens_equal
    assert lru.tokens_equal
    assert still.exchanges == 0
    assert lru.exchanges > 0
    assert lru.simulated_ns < still.simulated_ns
    assert lru.hit_rate > still.hit_rate
    assert (tmp_path / "on-demand-lru-step003.json").exists()
    assert (tmp_path / "on-demand-step003.json").exists()


def test_unknown_and_repeated_rules_are_refused(capsys):
    for given, message in (("magic", "expected a retention among static"), ("lru,lru", "expected distinct")):
        assert main(["run", "tiny", "--backend", "sim", "--tokens", "1", "--retention", given]) == 2
        assert message in capsys.readouterr().err
