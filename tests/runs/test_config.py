"""Configurations: what is given, what is assumed and why, and what is refused."""

import math
from dataclasses import fields, replace

import pytest

from mviq.runs import Config, resolve
from mviq.runs.config import remarks
from mviq.runs.presets import PRESETS, defaults
from mviq.runs.settings import config_yaml, merged, parse, read_file


def test_table_1_as_printed():
    run = resolve("CartPole-v1")
    assert (run.total_steps, run.train_every, run.buffer_size) == (500_000, 4, 50_000)
    assert (run.batch_size, run.target_every, run.hidden) == (128, 100, (512, 512))
    assert (run.learning_rate, run.gamma, run.temperature) == (1e-3, 0.99, 0.03)
    assert (run.epsilon_start, run.epsilon_end, run.munchausen_alpha) == (0.01, 0.01, 0.9)
    bounds = {"CartPole-v1": run.observation_bounds, "Acrobot-v1": (1.0, 1.0, 1.0, 1.0, 5.0, 5.0)}
    assert bounds["CartPole-v1"] == (2.4, 5.0, math.pi / 12, 2 * math.pi)
    acrobot = {"preset": "gym-acrobot", "target_every": 2500}
    changed = replace(run, **acrobot, env="Acrobot-v1", observation_bounds=bounds["Acrobot-v1"])
    assert resolve("Acrobot-v1") == changed


def test_the_reference_speaks_where_table_1_is_silent():
    for env in ("CartPole-v1", "Acrobot-v1"):
        run = resolve(env)
        assert (run.adam_epsilon, run.learning_starts, run.max_grad_norm) == (3.125e-4, 500, None)
        assert run.time_limit == "terminal"
    for env in ("LunarLander-v3", "MountainCar-v0", "my_module:MyEnv-v0"):
        assert (resolve(env).preset, resolve(env).time_limit) == ("general", "bootstrap")


@pytest.mark.parametrize("env", ["CartPole-v1", "Taxi-v3", "MinAtar/Breakout-v1", "ALE/Pong-v5"])
@pytest.mark.parametrize("total_steps", [100, 30_000, 10_000_000])
def test_a_run_of_any_length_explores_learns_and_is_evaluated(env, total_steps):
    run = resolve(env, total_steps=total_steps)
    assert total_steps // run.eval_every >= 20
    assert total_steps // run.log_every >= 20
    assert run.learning_starts <= total_steps / 20
    if run.epsilon_start > run.epsilon_end:
        assert run.epsilon_fraction * total_steps >= 2 * run.learning_starts
    assert not [text for text in remarks(run) if "target" not in text]


def test_what_does_not_fit_the_length_of_a_run_is_said_with_what_to_type():
    run = resolve("MinAtar/Breakout-v1", total_steps=30_000)
    assert remarks(run) == []
    cases = {
        "--epsilon-fraction 0.5": {"learning_starts": 5000, "epsilon_fraction": 0.02},
        "--epsilon-fraction 0.0001": {"learning_starts": 1, "epsilon_fraction": 1.1 / 30_000},
        "--eval-every 1500": {"eval_every": 20_000},
        "--target-every 1425": {"target_every": 40_000},
    }
    for advice, changes in cases.items():
        (said,) = remarks(replace(run, **changes))
        assert said.endswith(advice)
        name, value = advice.split()
        field = name[2:].replace("-", "_")
        assert remarks(replace(run, **changes | {field: parse(field, value)})) == []
    (said,) = remarks(replace(run, munchausen_alpha=1.5))
    assert said.startswith("munchausen_alpha is 1.5")


def test_table_2_as_printed():
    run = resolve("ALE/Asterix-v5")
    assert (run.total_steps, run.train_every, run.buffer_size) == (50_000_000, 4, 1_000_000)
    assert (run.batch_size, run.target_every, run.learning_rate) == (32, 8000, 1e-4)
    assert (run.epsilon_start, run.epsilon_end, run.epsilon_fraction) == (1.0, 0.01, 0.1)
    assert (run.network, run.critic, run.gamma) == ("nature", "quantile", 0.99)
    assert (run.temperature, run.munchausen_alpha, run.q) == (10.0, 0.9, 2.0)
    tsallis = resolve("ALE/Asterix-v5", algorithm="tsallis-vi")
    assert (tsallis.temperature, tsallis.munchausen_alpha) == (10.0, 0.0)
    m_vi = resolve("ALE/Asterix-v5", algorithm="m-vi")
    assert (m_vi.temperature, m_vi.munchausen_alpha, m_vi.q) == (0.03, 0.9, 1.0)
    assert (m_vi.form, m_vi.clip) == ("log", (-1.0, 0.0))


@pytest.mark.parametrize("env", ["CartPole-v1", "Acrobot-v1", "MinAtar/Freeway-v1", "ALE/Pong-v5"])
@pytest.mark.parametrize("algorithm", ["mvi", "m-vi", "vi", "soft-vi", "tsallis-vi"])
def test_every_default_has_a_source_and_every_field_help(env, algorithm):
    found = defaults(env, algorithm)
    names = {f.name for f in fields(Config)}
    assert found.keys() == names - {"env", "given"}
    assert all(default.source for default in found.values())
    assert all(f.metadata["help"] for f in fields(Config))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": 0.5}, "q must be at least 1, as learning needs, got 0.5"),
        ({"batch_size": 60_000}, "batch_size must be at most buffer_size = 50000, got 60000"),
        ({"n_quantiles": 50}, "n_quantiles must be left out for the scalar critic, got 50"),
        ({"target_every": 0}, "target_every must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be a finite number > 0, got 0"),
        ({"gamma": 1.5}, "gamma must be between 0 and 1, got 1.5"),
        ({"learning_rate": math.inf}, "learning_rate must be a finite number > 0, got inf"),
        ({"learning_starts": 50, "total_steps": 50}, "learning_starts must be below total_steps"),
        ({"total_steps": 0}, "total_steps must be at least 1, got 0"),
        ({"total_steps": 10**400}, r"total_steps must be below 2\*\*63, got 1"),
        ({"given": ("foo",)}, r"given must be names of settings, got \('foo',\)"),
        ({"total_steps": "many"}, "total_steps must be a whole number, got 'many'"),
        ({"time_limit": "ends"}, "time_limit must be one of bootstrap, terminal, got 'ends'"),
        ({"observation_bounds": (0.0,)}, "must be none, space, or finite numbers > 0, got"),
        ({"observation_bounds": "all"}, "must be one of none, space, or numbers separated by"),
        ({"learning_rate_end": -1}, "learning_rate_end must be a finite number of at least 0"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, or none, got 0"),
        ({"seed": -1}, "seed must be between 0 and 2147483647, got -1"),
        ({"seed": 2**31 - 2, "n_envs": 4}, "seed must be between 0 and 2147483644, got 2147483646"),
        ({"form": "gaps"}, "form must be one of gap, log, truncated_log, naive_log, got 'gaps'"),
        ({"algorithm": "m-vi", "q": 2.0}, "q of m-vi must be 1.0, got 2.0"),
        ({"algorithm": "ppo"}, "algorithm must be one of .*, got 'ppo'"),
        ({"hidden": (0,)}, r"hidden must be widths of at least 1, got \(0,\)"),
        ({"n_envs": True}, "n_envs must be a whole number, got True"),
        ({"max_grad_norm": -1.0}, "max_grad_norm must be a number > 0, or none, got -1.0"),
        ({"threads": 10**6}, "threads must be at most 1024, got 1000000"),
        ({"total_steps": 10**20}, r"total_steps must be below 2\*\*63, got 1"),
        ({"hidden": (10**20,)}, r"hidden must be below 2\*\*63, got"),
        ({"train_every": 10**9}, "train_every must be at most total_steps / n_envs = 500000"),
        ({"buffersize": 3}, "a run has no setting 'buffersize'; did you mean buffer_size?"),
        ({"preset": "atary"}, "preset must be one of gym, .*, got 'atary'"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        resolve("CartPole-v1", **changes)


def test_the_name_says_what_the_run_is_and_changes_with_what_matters():
    run = resolve("MinAtar/Breakout-v1", q=2, seed=3)
    assert run.name.startswith("MinAtar-Breakout-v1_mvi_q2_seed3_")
    assert resolve("mine:Env-v0").name.startswith("mine-Env-v0_mvi_q2_seed0_")
    assert run.name == resolve("MinAtar/Breakout-v1", q=2.0, seed=3).name
    assert run.hash == replace(run, checkpoint_every=7, track="tensorboard", device="cpu").hash
    for change in ({"gamma": 0.9}, {"eval_every": 1}, {"threads": 2}, {"clip": (-1.0, 0.0)}):
        assert run.hash != replace(run, **change).hash


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Asterix-v1", "ALE/Pong-v5"])
def test_the_saved_configuration_explains_itself_and_reads_back(env, tmp_path):
    run = resolve(env, algorithm="vi", max_grad_norm=None, adam_epsilon=1e-9, n_steps=1)
    file = tmp_path / "config.yaml"
    file.write_text(config_yaml(run))
    assert resolve(**read_file(file)) == run
    assert config_yaml(resolve(**read_file(file))) == file.read_text()
    assert "bootstrapping (given)\nn_steps: 1" in file.read_text()  # though it is the default
    assert "(Table" in file.read_text() or env.startswith("MinAtar")
    assert "# ε of Adam (given)\nadam_epsilon: 1.0e-09" in file.read_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "q: 3\ntotal_steps: 1e4\nlearning_rate: 1e-4\nclip: [-1, 0]\nhidden: [64]\n"),
        ("a.toml", "q = 3\ntotal_steps = 1e4\nlearning_rate = 1e-4\nclip = [-1, 0]\nhidden = [64]"),
    ],
)
def test_files_in_yaml_and_toml(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    run = resolve("CartPole-v1", **read_file(tmp_path / name))
    assert (run.q, run.total_steps, run.learning_rate) == (3.0, 10_000, 1e-4)
    assert (run.clip, run.hidden) == ((-1, 0), (64,))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", "q: [1", "is not YAML"),
        ("a.yaml", "- q", "must hold settings"),
        ("a.yaml", "3: 4", "a.yaml: a run has no setting 3"),
        ("a.toml", "gama = 0.9", "a.toml: a run has no setting 'gama'; did you mean gamma"),
        ("a.yaml", "q: two", "a.yaml: q must be a number, got 'two'"),
        ("a.toml", "q = ", "a.toml cannot be read"),
        ("a.json", "{}", "must end in .yaml, .yml or .toml"),
        ("a.yaml", "!!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_files_that_cannot_be_understood_are_named(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_file(tmp_path / name)


def test_numbers_as_people_write_them():
    assert parse("total_steps", "5e5") == parse("total_steps", "500_000") == 500_000
    assert parse("q", "inf") == math.inf
    assert parse("max_grad_norm", "none") is None
    for text in ("1.5", "inf", "nan"):
        with pytest.raises(ValueError, match=f"total_steps must be a whole number, got '{text}'"):
            parse("total_steps", text)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_all_complete_and_stored(preset, tmp_path):
    run = resolve("CartPole-v1", preset, q=2)
    file = tmp_path / "config.yaml"
    file.write_text(config_yaml(run))
    assert f"(given)\npreset: {preset}\n" in file.read_text()
    assert "# entropic index ≥ 1: 1 softmax, 2 sparsemax, inf greedy (given)\n" in file.read_text()
    gamma = defaults("CartPole-v1", preset=preset)["gamma"]
    assert f"({gamma.source})\ngamma: 0.99" in file.read_text()
    assert resolve(**read_file(file)) == run


def test_the_file_of_a_run_gives_what_was_given_where_its_preset_no_longer_fits(tmp_path):
    stored = read_file(_written(tmp_path, resolve("CartPole-v1", q=3.0, total_steps=2000)))
    again = resolve(**merged(stored, {"seed": 4}))
    assert (again.seed, again.eval_every, again.given) == (4, 100, ("q", "total_steps", "seed"))
    longer = resolve(**merged(stored, {"total_steps": 100_000}))
    assert longer == resolve("CartPole-v1", q=3.0, total_steps=100_000)
    other = resolve(**merged(stored, {"preset": "general"}))
    assert (other.q, other.hidden) == (3.0, resolve("LunarLander-v3").hidden)


def _written(place, run):
    (place / "config.yaml").write_text(config_yaml(run))
    return place / "config.yaml"


def test_what_clips_and_what_does_not():
    assert resolve("CartPole-v1").clip == resolve("LunarLander-v3").clip == (-1.0, 1.0)
    assert resolve("CartPole-v1", algorithm="m-vi").clip == (-1.0, 0.0)
    assert resolve("CartPole-v1", algorithm="vi").clip is None
    assert resolve("ALE/Pong-v5").clip is None


def test_other_environments_whose_names_begin_alike_have_the_general_preset():
    assert resolve("mine:CartPole-Swingup-v0").preset == "general"
