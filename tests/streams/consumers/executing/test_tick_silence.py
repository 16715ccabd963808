from streams.consumers.executing.tick_silence import TickSilence


def test_a_log_without_ticks_says_so_and_a_clock_that_stops_does_after_a_while() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    assert silence.reasons() == ["the log has no tick yet: is `ullage source clock` at work?"]
    assert silence.reasons_once_heard() == []
    silence.heard(1_000)
    silence.heard(1_500)
    now[0] = 20.0
    assert silence.reasons() == []
    now[0] = 21.0
    assert silence.reasons() == silence.reasons_once_heard() == ["no tick has come for 21 s: is `ullage source clock` at work?"]
    silence.heard(22_500)
    assert silence.reasons() == []


def test_a_clock_that_ticks_once_a_minute_is_not_silent_for_three() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    for tick in (0, 60_000, 120_000):
        silence.heard(tick)
    now[0] = 180.0
    assert silence.reasons() == []
    now[0] = 181.0
    assert silence.reasons() != []


def test_ticks_behind_a_tick_of_the_future_move_nothing_on_and_its_jump_is_no_period() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    for tick in (0, 500, 3_540_500):
        silence.heard(tick)
    now[0] = 20.0
    silence.heard(20_000)
    assert silence.reasons() == []
    now[0] = 21.0
    assert silence.reasons() == [
        "for 21 s no tick was later than 1970-01-01T00:59:00.500000+00:00, which the log has reached: was a clock's time wrong?"
    ]
    silence.heard(3_540_500)  # a second clock repeats the newest one
    assert "no tick was later than" in silence.reasons()[0]
    silence.heard(3_541_000)
    assert silence.reasons() == []
