"""Analyses of finished studies: `@analysis("name")` registers a function, its signature is its command.

An analysis takes `AnalysisInputs` and settings of its own, and returns an `AnalysisResult`. `unseen analyse` runs it, a
plan may ask for it, and the report shows the JSON and the picture that it leaves in `<study>/analyses`.
"""

from unseen.analyses.base import AnalysisInputs as AnalysisInputs
from unseen.analyses.base import AnalysisResult as AnalysisResult
from unseen.analyses.run import check_analyses as check_analyses
from unseen.analyses.run import run_analysis as run_analysis
from unseen.analyses.stored import read_analyses as read_analyses
from unseen.analyses.stored import write_analysis as write_analysis
