"""Parts of a person's own in a run, by their import paths."""

import math
from dataclasses import replace

import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.logger import HParam
from stable_baselines3.common.vec_env import DummyVecEnv

from mviq.cli.evaluate import return_statistics
from mviq.cli.export import card
from mviq.runs import resolve
from mviq.runs.building import check_config, load_trained_agent, model_files, normalized
from mviq.runs.directory import RunDirectory
from mviq.runs.evaluation import Episode, evaluate, seed_of
from mviq.runs.settings import config_yaml, parse
from mviq.runs.tables import read_rows
from mviq.runs.tracking import Tables
from mviq.runs.training import train
from problems import Observed
from small_runs import cartpole, crash

PARTS = {
    "features_extractor": "own_parts:Squashed",
    "wrappers": ("own_parts:Noisy",),
    "normalize": "rewards",
    "callbacks": ("own_parts:Counting", "own_parts:Impatient"),
    "learning_rate_schedule": "own_parts:halving",
    "q_schedule": "own_parts:falling_q",
}
CALLBACKS = "stable_baselines3.common.callbacks"


@pytest.mark.parametrize("setting", PARTS)
def test_a_part_determines_the_run_and_without_it_the_run_is_what_it_was(setting):
    bare = cartpole(observation_bounds="none")
    assert replace(bare, **{setting: PARTS[setting]}).hash != bare.hash
    assert resolve("CartPole-v1").hash == "81c617dd"  # before there were such parts


def test_a_file_of_before_there_were_parts_is_read(tmp_path):
    config = cartpole()
    lines = config_yaml(config).splitlines()
    old = [line for line in lines if line.partition(":")[0] not in PARTS]
    assert len(old) < len(lines)
    (tmp_path / "config.yaml").write_text("\n".join(old))
    assert RunDirectory(tmp_path).config() == config


@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        ("callbacks", "Counting", "callbacks must be an import path as module:Name, got 'Count"),
        ("callbacks", "nowhere:Counting", "there is no module 'nowhere', which 'nowhere:Counting'"),
        ("callbacks", "own_parts:Countin", "callbacks: own_parts has no 'Countin'; did you mean"),
        ("callbacks", "own_parts:Noisy", "a subclass of stable_baselines3's BaseCallback"),
        ("wrappers", "own_parts:Counting", "must name a subclass of gymnasium's Wrapper"),
        ("q_schedule", "own_parts:np", "must name a function of the progress remaining"),
        ("callbacks", f"{CALLBACKS}:BaseCallback", "BaseCallback' is abstract: name a subclass"),
        (
            "callbacks",
            f"{CALLBACKS}:CheckpointCallback",
            "is called with no arguments: missing a required argument: 'save_freq'",
        ),
        (
            "wrappers",
            "gymnasium.wrappers:TimeLimit",
            "is called with env: missing a required argument: 'max_episode_steps'",
        ),
        ("normalize", "both", "observation_bounds must be none with normalize = both, got (2.4"),
    ],
)
def test_what_is_not_there_is_said_before_anything_starts(setting, path, message):
    with pytest.raises(ValueError) as told:  # noqa: PT011 - the message is below
        check_config(cartpole(**{setting: parse(setting, path)}))
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "m-vi", "q_schedule": "own_parts:falling_q"}, "q_schedule must be none for"),
        (
            {"learning_rate_schedule": "own_parts:halving", "learning_rate_end": 0.0},
            "learning_rate_end must be none with a learning_rate_schedule",
        ),
    ],
)
def test_no_setting_is_ignored_in_favour_of_a_schedule(settings, message):
    with pytest.raises(ValueError, match=message):
        cartpole(**settings)


def test_a_mask_of_numbers_is_not_normalised():
    config = cartpole(normalize="observations", observation_bounds="none")
    parts = {"action_mask": spaces.Box(0, 1, (2,)), "where": spaces.Box(-1, 1, (3,))}
    env = DummyVecEnv([lambda: Observed(spaces.Dict(parts))])
    assert normalized(env, config).norm_obs_keys == ["where"]


@pytest.mark.parametrize("part", ["own_parts:Dropping", "own_parts:Batched"])
def test_agents_are_evaluated_in_evaluation_mode(part, tmp_path):
    config = cartpole(features_extractor=part, observation_bounds="none", total_steps=500)
    train(config, tmp_path)
    run = RunDirectory(tmp_path / config.name)
    agent = load_trained_agent(config, run.model)
    before = {name: x.clone() for name, x in agent.policy.state_dict().items()}
    again = evaluate(agent, config, config.eval_episodes, seed_of(config.seed, 500))
    stored = [float(r["return"]) for r in read_rows(run.evaluations) if r["step"] == "500"]
    assert [episode.total for episode in again] == stored
    assert all(x.equal(before[name]) for name, x in agent.policy.state_dict().items())


def test_parts_do_their_work(tmp_path):
    config = cartpole(**PARTS, observation_bounds="none")
    result = train(config, tmp_path)
    assert (result.steps, result.message) == (300, "a callback stopped it at step 300 of 1000")
    run = RunDirectory(tmp_path / config.name)
    own = read_rows(run.own_metrics)
    assert {row["name"] for row in own} == {"own/ends", "tsallis/q"}
    rates = [float(row["train/learning_rate"]) for row in read_rows(run.progress)[1:]]
    assert rates == sorted(rates, reverse=True)
    q = [float(row["value"]) for row in own if row["name"] == "tsallis/q"]
    assert 1 < q[-1] < q[0] < 2
    agent = load_trained_agent(config, run.model)
    assert type(agent.q_net.features_extractor).__name__ == "Squashed"


def test_a_normalised_agent_plays_as_in_training_when_it_is_loaded(tmp_path):
    config = cartpole(normalize="both", observation_bounds="none")
    train(config, tmp_path)
    run = RunDirectory(tmp_path / config.name)
    agent = load_trained_agent(config, run.model)
    again = evaluate(agent, config, config.eval_episodes, seed_of(config.seed, 1000))
    stored = [float(r["return"]) for r in read_rows(run.evaluations) if r["step"] == "1000"]
    assert [episode.total for episode in again] == stored
    assert [float(episode.length) for episode in again] == stored  # raw: one for each step
    statistics = run.model.with_suffix(".normalize.json")
    for content in ("{", "{}", '{"": {"mean": 0, "var": 1, "count": 1}}', '{"": {"mean": null}}'):
        statistics.write_text(content)
        with pytest.raises(ValueError, match=r"model\.normalize\.json is damaged"):
            load_trained_agent(config, run.model)


def test_the_statistics_of_the_best_agent_are_saved_with_it_in_a_checkpoint(tmp_path):
    config = cartpole(normalize="observations", observation_bounds="none")
    crash(config, tmp_path, 480)
    run = RunDirectory(tmp_path / config.name)
    files = model_files(config, run.best_model)
    before = [file.read_bytes() for file in files]
    for file in files:  # as if a better one had been found, and undone by the crash
        file.write_bytes(b"of a step to be done again")
    crash(config, tmp_path, 490)
    assert len(files) == 2
    assert [file.read_bytes() for file in files] == before


def test_what_only_tensorboard_can_show_is_not_in_the_tables(tmp_path):
    names = ("progress", "timing", "evaluations", "own")
    tables = Tables(*(tmp_path / f"{name}.csv" for name in names))
    for table in tables.all.values():
        table.open()
    logger = tables.logger()
    shown = {
        "histogram": torch.ones(4),
        "settings": HParam({}, {"a": 0}),
        "number": torch.tensor(2.5),
    }
    for name, value in {**shown, "text": "a, b"}.items():
        logger.record(f"own/{name}", value)
    logger.dump(7)
    written = {row["name"]: row["value"] for row in read_rows(tmp_path / "own.csv")}
    assert written == {"own/number": "2.5", "own/text": "a, b"}
    tables.close()


@pytest.mark.parametrize(("setting", "told"), [("both", True), ("rewards", False)])
def test_a_card_says_that_observations_have_to_be_rescaled(setting, told):
    scores = dict.fromkeys(("mean", "low", "high", "median", "min", "max"), 9.0)
    config = cartpole(normalize=setting, observation_bounds="none")
    written = card(config, 1000, scores | {"returns": [9.0, 9.0]}, False)
    assert ("model.normalize.json" in written) is told


def test_a_card_of_returns_that_are_not_finite():
    scores = return_statistics([Episode(math.inf, 5), Episode(1.0, 5)])
    written = card(cartpole(), 1000, scores, False)
    assert "value: nan +/- nan" in written
    assert "**nan**; median\ninf, from 1.00 to inf" in written
