"""Methods: what is trained beside one loss on one head, and what a model's head is then."""

from unseen.methods.objective import Ground as Ground
from unseen.methods.objective import Method as Method
from unseen.methods.objective import Objective as Objective
from unseen.methods.objective import Passed as Passed
from unseen.methods.plain import Plain as Plain
