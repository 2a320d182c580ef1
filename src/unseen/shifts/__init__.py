"""Shifts: ladders of splits of growing distance, what scores are worth over them, and few-shot adaptation."""

from unseen.shifts.build import PUBLISHED_LADDERS as PUBLISHED_LADDERS
from unseen.shifts.build import LadderSettings as LadderSettings
from unseen.shifts.build import build_ladder as build_ladder
from unseen.shifts.few_shot import Adaptation as Adaptation
from unseen.shifts.few_shot import FewShotResult as FewShotResult
from unseen.shifts.few_shot import FewShotSettings as FewShotSettings
from unseen.shifts.few_shot import few_shot as few_shot
from unseen.shifts.few_shot import few_shot_on_rung as few_shot_on_rung
from unseen.shifts.generalisation import aggregated_score as aggregated_score
from unseen.shifts.generalisation import rank_changes as rank_changes
from unseen.shifts.generalisation import ranks as ranks
from unseen.shifts.generalisation import relative_to_mean as relative_to_mean
from unseen.shifts.group_ladder import build_group_ladder as build_group_ladder
from unseen.shifts.ladder import Ladder as Ladder
from unseen.shifts.ladder import LadderSource as LadderSource
from unseen.shifts.ladder import Rung as Rung
from unseen.shifts.ladder import read_ladder as read_ladder
from unseen.shifts.ladder import write_ladder as write_ladder
from unseen.shifts.ladder_split import ByLadder as ByLadder
from unseen.shifts.ladder_split import split_of_rung as split_of_rung
from unseen.shifts.small_sample_distance import CorrectedDistance as CorrectedDistance
from unseen.shifts.small_sample_distance import corrected_distance as corrected_distance
from unseen.shifts.steps import SwapSchedule as SwapSchedule
