"""Every field of the configs can be set from the command line, with its own docstring, and nothing else changes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import tyro

from adc_wrappers.cli.main import COMMANDS, load_command, main, read_command
from adc_wrappers.cli.options import changes_of, field_texts, parse_joint_values
from adc_wrappers.cli.select_k0 import _OF_THE_SEARCH, SelectK0
from adc_wrappers.cli.study import StudyRun
from adc_wrappers.cli.train import Train
from adc_wrappers.cli.viability import Viability
from adc_wrappers.core import CurriculumConfig
from adc_wrappers.training import PpoConfig, TrainConfig
from adc_wrappers.training.ppo import ActionConfig

CONFIGS = {"curriculum": CurriculumConfig, "ppo": PpoConfig, "actions": ActionConfig}
FIELDS = [(section, field.name) for section, config in CONFIGS.items() for field in dataclasses.fields(config)]

WORDS = {  # where a number, a whole number or the other truth value will not do
    "start_stiffness": "50",
    "target_stiffness": "20",
    "average": "resets",
    "clip_value": "True",  # the recipe's is not the default
    "damping": "fixed",
    "driver": "adaptive",
    "adaptive_measure": "success",
    "length_max": "300",
    "success_max": "0.8",
    "task_progress_max": "0.7",
    "adaptive_upper": "0.7",
    "hidden": "8 16",
    "damping_ratio": "0.9",
    "progress_end": "0.8",
    "max_learning_rate": "0.02",
}
COMPANIONS = {"damping": "--curriculum.fixed-damping 1.5", "fixed_damping": "--curriculum.damping fixed"}
FOLLOWING = {
    "damping": {"fixed_damping"},
    "fixed_damping": {"damping"},
    "hold_share": {"total_iterations"},  # a share of them
    "num_envs": {"total_steps", "batch_size"},
}


def word_for(config: type, name: str) -> str:
    field = {field.name: field for field in dataclasses.fields(config)}[name]
    if name in WORDS:
        return WORDS[name]
    if isinstance(field.default, bool):
        return str(not field.default)
    return "3" if field.type.split()[0] == "int" else "0.25"


def parse(command: type, words: str):
    return tyro.cli(command, args=["cartpole", "--backend", "analytic", *words.split()])


def option(section: str, name: str) -> str:
    return f"--{section}.{name.replace('_', '-')}"


@pytest.fixture(scope="module")
def plain():
    return parse(Train, "").new_config(0, print).to_dict()


@pytest.mark.parametrize(("section", "name"), FIELDS)
def test_every_field_can_be_set_and_nothing_else_changes(section, name, plain):
    word = word_for(CONFIGS[section], name)
    options = parse(Train, f"{option(section, name)} {word} {COMPANIONS.get(name, '')}")
    config = options.scheduled(options.new_config(0, lambda said: None)).to_dict()
    value = config[section][name]
    assert value == getattr(options, section)[name] or value == list(getattr(options, section)[name])
    assert str(value).strip("[]").replace(",", "").removesuffix(".0") == word
    differing = {(part, key) for part in CONFIGS for key in plain[part] if plain[part][key] != config[part][key]}
    assert differing == {(section, key) for key in {name} | FOLLOWING.get(name, set())}
    assert [plain[key] for key in plain if key not in CONFIGS] == [config[key] for key in plain if key not in CONFIGS]


@pytest.mark.parametrize(("command", "decided"), [(SelectK0, _OF_THE_SEARCH), (StudyRun, ("seed",))])
def test_searches_and_studies_take_the_same_options(command, decided):
    words = {
        (section, name): f"{option(section, name)} {word_for(CONFIGS[section], name)}"
        for section, name in FIELDS
        if section != "curriculum" or name not in decided
    }
    one, other = parse(command, " ".join(words.values())), parse(Train, " ".join(words.values()))
    assert [getattr(one, section) for section in CONFIGS] == [getattr(other, section) for section in CONFIGS]
    assert {(section, name) for section in CONFIGS for name in getattr(one, section)} == set(words)
    for name in decided:  # an option that would change nothing is not there
        with pytest.raises(SystemExit):
            parse(command, f"{option('curriculum', name)} {word_for(CurriculumConfig, name)}")


@pytest.mark.parametrize("section", CONFIGS)
def test_the_help_is_the_fields_own_docstring(section):
    texts, options = field_texts(CONFIGS[section]), changes_of(CONFIGS[section]).__annotations__
    assert list(texts) == list(options) == [field.name for field in dataclasses.fields(CONFIGS[section])]
    for name, text in texts.items():
        assert "``" not in text and any(getattr(note, "help", None) == text for note in options[name].__metadata__)


def test_every_part_of_a_run_has_an_option():
    offered = {field.name for field in dataclasses.fields(Train)}
    assert {field.name for field in dataclasses.fields(TrainConfig)} - offered == {"settings"}  # these are --set
    config = parse(Train, "--early-termination False --checkpoint-every 7").new_config(0, print)
    assert (config.early_termination, config.checkpoint_every) == (False, 7)


def test_settings_may_be_given_one_by_one():
    command = read_command("train", ["cartpole", "--set", "start_angle=0.1", "--seed", "3", "--set", "start_angle=0.2"])
    assert command.set == ("start_angle=0.1", "start_angle=0.2")
    assert command.seed == 3
    study = read_command("study", ["run", "cartpole", "--conditions", "adc", "--conditions", "time", "uniform"])
    assert study.command.conditions == ("adc", "time", "uniform")


def test_of_what_is_one_value_the_last_counts():
    assert read_command("train", ["cartpole", "--seed", "3", "--seed", "4"]).seed == 4


def test_short_names_are_those_of_before():
    ppo = {"total_steps": 5, "num_envs": 2}
    assert parse(Train, "--steps 5 --num-envs 2").ppo == parse(Train, "--ppo.total-steps 5 --ppo.num-envs 2").ppo == ppo
    assert parse(StudyRun, "--budget 5").ppo == {"total_steps": 5} and parse(SelectK0, "--target-stiffness 3").ppo == {}


def test_what_was_given_can_be_none():
    options = parse(Train, "--recipe narrow --ppo.sideways-std None --curriculum.fixed-damping None")
    assert options.ppo == {"sideways_std": None} and options.curriculum == {"fixed_damping": None}


def test_joints_are_set_one_by_one():
    assert parse_joint_values("*_kn=40,*_h?=60") == {"*_kn": 40.0, "*_h?": 60.0}
    options = tyro.cli(Train, args=["--curriculum.start-stiffness", "50,60", "double-cartpole"])
    assert options.task == "double-cartpole" and options.curriculum == {"start_stiffness": (50.0, 60.0)}
    for word in ("stiff", "a=1,2", "1,", "a=b"):
        with pytest.raises(ValueError, match="expected a number, numbers in joint order"):
            parse_joint_values(word)
    with pytest.raises(SystemExit):
        parse(Train, "--curriculum.start-stiffness stiff")


def test_another_number_of_envs_keeps_minibatches_and_iterations():
    said: list[str] = []
    plain = parse(Train, "--recipe quick").new_config(0, said.append)
    assert not said
    config = parse(Train, "--recipe quick --num-envs 16").new_config(0, said.append)
    before, after = plain.ppo, config.ppo
    assert (after.minibatches, after.iterations) == (before.minibatches, before.iterations) == (4, 98)
    assert (after.batch_size, after.total_steps) == (64, 98 * 16 * 16)
    assert said == [
        "num_envs 64 → 16: batch_size 256 → 64 (still 4 minibatches), "
        "total_steps 100,000 → 25,088 (still 98 iterations)"
    ]


def test_what_is_given_with_the_number_of_envs_is_kept():
    said: list[str] = []
    words = "--recipe quick --num-envs 16 --ppo.batch-size 100 --steps 5000"
    assert parse(Train, words).new_config(0, said.append).ppo.changed({})[0].batch_size == 100 and not said
    ppo = parse(Train, "--recipe quick --num-envs 16 --steps 5000 --ppo.n-steps 8").new_config(0, said.append).ppo
    assert (ppo.batch_size, ppo.total_steps) == (32, 5000)
    assert said == ["num_envs 64 → 16: batch_size 256 → 32 (still 4 minibatches)"]


def test_the_run_says_what_it_changed_and_goes_on_without(tmp_path, capsys):
    words = ["train", "cartpole", "--recipe", "quick", "--num-envs", "4", "--steps", "64", "--ppo.hidden", "8"]
    words += ["--eval-episodes", "0", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert "num_envs 64 → 4: batch_size 256 → 16 (still 4 minibatches)" in capsys.readouterr().out
    assert main([*words, "--resume"]) == 0
    assert "minibatches" not in capsys.readouterr().out


def test_a_given_length_of_the_schedule_is_kept():
    options = parse(Train, "--recipe quick --curriculum.total-iterations 7")
    assert options.scheduled(options.new_config(0, print)).curriculum.total_iterations == 7
    options = parse(Train, "--recipe quick --steps 10240")
    assert options.scheduled(options.new_config(0, print)).curriculum.total_iterations == 10


def test_the_help_imports_no_torch():
    code = (
        "import sys; from adc_wrappers.cli.main import main\n"
        "try: main(['train', '--help'])\nexcept SystemExit: pass\n"
        "raise SystemExit('torch' in sys.modules or 'stable_baselines3' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_overview_says_what_commands_say_of_themselves_and_imports_none_of_them(capsys):
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, command in COMMANDS.items():
        assert " ".join(load_command(name).__doc__.split("\n\n")[0].split()) == command.summary
        assert f"{name} {command.summary}" in shown
    code = (
        "import sys; from adc_wrappers.cli.main import main, COMMANDS\n"
        "assert main(['--help']) == 0 and main([]) == 2 and 'rich' not in sys.modules\n"
        "assert main(['--sed', 'train']) == 2 and main(['trian']) == 2\n"
        "loaded = {f'adc_wrappers.cli.{command.module}' for command in COMMANDS.values()}\n"
        "loaded |= {'tyro', 'torch', 'numpy.f2py', 'adc_wrappers.runs', 'adc_wrappers.backends.limiter'}\n"
        "raise SystemExit(bool(loaded & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_config_of_a_run_is_as_before_without_options():
    options = parse(Train, "")
    config = options.scheduled(options.new_config(0, print))
    assert TrainConfig.from_dict(config.to_dict()) == config and options.ppo == options.curriculum == {}


def test_a_quick_look_at_viability_is_coarser_but_for_what_is_said():
    def quick(*words):
        return tyro.cli(Viability, args=["--quick", *words]).coarse()

    usual, coarse = Viability(), quick("--samples", "7")
    assert set(coarse.slices) <= set(coarse.frequencies) < set(usual.frequencies)
    assert max(coarse.kernel_points) < max(usual.kernel_points) and len(coarse.pairs) < len(usual.pairs)
    assert coarse.samples == 7 and not coarse.influence and not coarse.quick
    assert coarse.start_points < usual.start_points
    assert quick("--kernel-points", "5", "7").kernel_points == (5, 7)
