"""What the tests of the live view share."""

from __future__ import annotations

import socket

from adc_wrappers.viewing import ViewSession, make_action


def session_of(env, action=None, **options):
    return ViewSession(env, make_action(action, env.task), **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
