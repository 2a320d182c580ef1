"""Freed memory stays with the process: the same tensor a second time costs no page faults."""

import platform
import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, sys
import torch
from unseen.core.machine.memory import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(20_000_000)  # 80 MB: glibc adapts its thresholds up to 32 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

for _ in range(12):  # until the free blocks suit the tensor
    faults()
print(min(faults() for _ in range(5)))
"""


def page_faults(policy):
    done = subprocess.run([sys.executable, "-c", PAGE_FAULTS, policy], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_kept_memory_is_not_faulted_in_again():
    # Transparent huge pages make faults of 2 MB each: 40 for this tensor instead of 19,532.
    assert page_faults("default") >= 40
    assert page_faults("keep") < 8
