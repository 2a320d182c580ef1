"""What every registered analysis must do: be a command with help, need no settings, refuse a folder without a study."""

import inspect

import pytest

from unseen.analyses import AnalysisInputs, AnalysisResult, check_analyses, run_analysis
from unseen.cli.analyse import command_of
from unseen.core.errors import ConfigError, UnseenError
from unseen.core.registry import analysis

pytestmark = pytest.mark.parametrize("name", analysis.names())


def test_it_is_a_command_with_a_summary_and_help_for_every_option(name):
    command = command_of(name)
    assert command.help
    assert all(getattr(option, "help", "") for option in command.params), "an option without a row in the docstring"


def test_its_settings_have_defaults_so_that_a_plan_may_name_it_alone(name):
    assert all(argument.default != "required" for argument in analysis.entry(name).arguments)
    check_analyses({name: {}})


def test_it_takes_its_inputs_and_keywords_and_returns_a_result(name):
    signature = inspect.signature(analysis[name])
    inputs, *settings = signature.parameters.values()
    assert inputs.kind is inputs.POSITIONAL_ONLY
    assert inputs.annotation is AnalysisInputs
    assert all(setting.kind is setting.KEYWORD_ONLY for setting in settings)
    assert signature.return_annotation is AnalysisResult


def test_an_unknown_setting_is_refused_with_those_it_has(name):
    with pytest.raises(ConfigError, match=f"analysis '{name}' has no setting 'colour'.*it has: "):
        check_analyses({name: {"colour": "red"}})


def test_a_folder_without_a_study_is_refused_and_nothing_is_written(name, tmp_path):
    with pytest.raises(UnseenError):
        run_analysis(name, AnalysisInputs(tmp_path), {})
    assert list(tmp_path.iterdir()) == []
