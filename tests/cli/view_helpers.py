"""Helpers of the live view's tests."""

from __future__ import annotations

import socket

from adc_wrappers.viewing import Playback, make_action


def playback_of(env, action=None, **options):
    return Playback(env, make_action(action, env.task), **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
