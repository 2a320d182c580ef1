"""Processes are told apart by pid, start and boot; a pool of them does its work and leaves nobody behind."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from unseen.core.processes import identity, in_processes, is_alive, is_here


def test_this_process_is_here_and_alive_and_no_two_identities_are_equal():
    first, second = identity(), identity()
    assert is_here(first)
    assert is_alive(first)
    assert first != second


def test_a_process_that_ended_is_dead_before_and_after_it_is_waited_for():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    owner = identity(child.pid)
    assert is_alive(owner)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(owner), "a zombie does no work"
    child.wait()
    assert not is_alive(owner)


def test_another_process_with_the_same_pid_is_not_mistaken_for_the_owner():
    token, pid, start, boot = identity().split(".")
    assert not is_alive(f"{token}.{pid}.{int(start) + 1}.{boot}")


def test_a_process_of_another_boot_is_not_here():
    assert not is_here(identity().rsplit(".", 1)[0] + ".0123456789ab")
    assert not is_here("somebody")


def test_an_identity_holds_no_host_name():
    assert os.uname().nodename not in identity()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_item_is_done_once_with_its_place(workers):
    found = dict(in_processes(math.factorial, [3, 1, 2], workers))
    assert found == {0: 6, 1: 1, 2: 2}


def test_what_a_process_raises_is_raised_here_and_no_process_stays():
    with pytest.raises(ValueError, match="not defined for negative"):
        list(in_processes(math.factorial, [3, -1, 2, 4], 2))
    assert multiprocessing.active_children() == []


def test_processes_of_the_pool_have_one_thread_and_pass_over_interrupts():
    threads = dict(in_processes(os.getenv, ["OMP_NUM_THREADS"] * 2, 2))
    assert set(threads.values()) == {"1"}
    handled = dict(in_processes(signal.getsignal, [signal.SIGINT] * 2, 2))
    assert set(handled.values()) == {signal.SIG_IGN}


def test_an_interrupt_ends_the_pool_at_once_and_leaves_nobody_behind(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, time\n"
        "from unseen.core.processes import in_processes\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs begin without it
        "    list(in_processes(time.sleep, [600, 600, 600], 2))\n"
    )
    parent = subprocess.Popen([sys.executable, program], stderr=subprocess.PIPE, start_new_session=True)
    children = f"/proc/{parent.pid}/task/{parent.pid}/children"
    while len(_read(children)) < 3:  # the two, and the one that tracks what they share
        assert parent.poll() is None
        time.sleep(0.05)
    owners = [identity(int(pid)) for pid in _read(children)]
    time.sleep(0.5)
    os.killpg(parent.pid, signal.SIGINT)
    assert b"KeyboardInterrupt" in parent.communicate()[1]
    deadline = time.monotonic() + 30
    while any(map(is_alive, owners)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, owners))


def _read(path):
    with open(path, encoding="ascii") as file:
        return file.read().split()
