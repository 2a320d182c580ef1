"""Processes are told apart by pid, start and boot."""

import os
import subprocess
import sys

from unseen.core.processes import identity, is_alive, is_here


def test_this_process_is_here_and_alive_and_no_two_identities_are_equal():
    first, second = identity(), identity()
    assert is_here(first)
    assert is_alive(first)
    assert first != second


def test_a_process_that_ended_is_dead_before_and_after_it_is_waited_for():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    owner = identity(child.pid)
    assert is_alive(owner)
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
