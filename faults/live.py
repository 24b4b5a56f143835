"""Faults of the live system: reports lost, counted twice, told too early or to too few."""

from typing import Final

from faults.fault import Fault

__all__ = ["LIVE"]

_DEVICE: Final = (
    Fault(
        name="noise-drawn-again",
        wrong="The ledger takes another report for a round that it was paid for already.",
        file="rase/accounting/ledger/__init__.py",
        old="        if self.found is not None or self.made is not None or self.is_committed:\n",
        new="        if self.made is not None or self.is_committed:\n",
        tests=("tests/accounting/ledger/test_ledger.py::test_a_report_is_kept_once",),
    ),
    Fault(
        name="ledger-not-consulted",
        wrong="A device that starts after a crash does not look up what its ledger has paid for.",
        file="rase/device/agent.py",
        old="                self._done[entry.round] = None\n",
        new="                continue\n",
        tests=("tests/device/test_agent.py::test_the_newest_rounds_are_remembered_longest",),
    ),
    Fault(
        name="ledger-not-written",
        wrong="A report is handed out to be sent while the ledger has no entry of it.",
        file="rase/accounting/ledger/__init__.py",
        old="            if made is not None:\n",
        new="            if made is not None and not made.report:\n",
        tests=("tests/device/test_deaths.py::test_death_at_every_step_draws_once_and_spends_once",),
    ),
    Fault(
        name="window-overspent",
        wrong="The ledger lets the last report of a window exceed its budget.",
        file="rase/accounting/ledger/limits.py",
        old="            if spent + asked > limit:\n",
        new="            if spent > limit:\n",
        tests=(
            "tests/accounting/ledger/test_ledger.py::test_a_window_refuses_with_spent_asked_limit_and_refresh",
        ),
    ),
    Fault(
        name="reading-not-clamped",
        wrong="A device draws the report of a reading above the range without clipping it.",
        file="rase/domain.py",
        old="exact = min(max((reading - self.low) / self.step, 0.0), float(self.steps))",
        new="exact = max((reading - self.low) / self.step, 0.0)",
        tests=("tests/laws/test_pure.py::test_the_same_words_give_the_same_report",),
    ),
    Fault(
        name="key-of-now",
        wrong="A device seals a round for the fusion key of now, not for that of the round's end.",
        file="rase/device/terms.py",
        old="fusion = keyset.active(Role.FUSION, end_s, kem",
        new="fusion = keyset.active(Role.FUSION, now_s, kem",
        tests=("tests/device/test_terms.py::test_keys_are_those_of_the_rounds_end",),
    ),
    Fault(
        name="value-in-journal",
        wrong="A device writes the noisy place of its report into its log.",
        file="rase/device/reporter.py",
        old="""        self._show(campaign, spending.stored_report)
        self._journal.note("sealed", round=round)
""",
        new="""        self._show(campaign, spending.stored_report)
        place = _DRAWN.unpack_from(spending.stored_report.report)[2]
        self._journal.note("sealed", round=round, place=place)
""",
        tests=("tests/simulation/test_trust.py::test_no_log_line_has_an_identity_or_a_value",),
    ),
)

_SHUFFLER: Final = (
    Fault(
        name="repeat-is-a-new-report",
        wrong="The table of reports may hold a second one of a device in the same round.",
        file="rase/storage/migrations/shuffler/0001_initial.sql",
        old="    PRIMARY KEY (round, tag, device)\n",
        new="    PRIMARY KEY (round, tag, device, wire)\n",
        tests=("tests/shuffler/test_intake.py::test_the_first_envelope_counts",),
    ),
    Fault(
        name="device-counted-twice",
        wrong="A release holds every report of a device that waited, not only its newest.",
        file="rase/shuffler/release.py",
        old="newest[one.device] = key_id, len(some.labels)",
        new="newest[len(newest)] = key_id, len(some.labels)",
        tests=("tests/shuffler/test_carry.py::test_k_min_counts_devices_and_each_has_one_report",),
    ),
    Fault(
        name="acknowledged-before-commit",
        wrong="The shuffler acknowledges a report before it is on the disk.",
        file="rase/shuffler/report_handler.py",
        old="            return _status_of(await self._commits.submit(pending))\n",
        new="""            waiting = self._commits.submit(pending)
            waiting.add_done_callback(lambda done: done.exception())
            return _status_of(Outcome.STORED)
""",
        tests=("tests/shuffler/test_app.py::test_a_full_disk_loses_nothing",),
    ),
    Fault(
        name="lease-not-checked",
        wrong="A closer that lost its lease writes its release all the same.",
        file="rase/shuffler/release.py",
        old="            check_lease(transaction, lease)\n",
        new="",
        tests=("tests/shuffler/test_simulation.py::test_a_rival_never_makes_a_second_batch",),
    ),
    Fault(
        name="lease-missing",
        wrong="Two closers may take the same round at the same time.",
        file="rase/shuffler/rounds.py",
        old="(lease_until_s <= ? OR lease_until_s > ?)",
        new="(lease_until_s <= ? OR lease_until_s > ? OR 1 = 1)",
        tests=("tests/shuffler/test_closer.py::test_one_holder_at_a_time",),
    ),
    Fault(
        name="round-released-twice",
        wrong="A released round can be taken by a closer again, once the lease ends.",
        file="rase/shuffler/release.py",
        old='"UPDATE round SET state = ?, reports = ?, lease_token = NULL "\n'
        '                "WHERE campaign = ? AND round = ?",\n'
        "                (state, reports, agreed.hash, lease.round),\n",
        new='"UPDATE round SET lease_token = NULL WHERE campaign = ? AND round = ?",\n'
        "                (agreed.hash, lease.round),\n",
        tests=(
            "tests/shuffler/test_release.py::test_a_round_is_released_whole_and_its_payloads_go",
        ),
    ),
    Fault(
        name="released-as-it-came",
        wrong="A batch holds the reports in the order in which they are stored.",
        file="rase/shuffler/release.py",
        old="order[begin:end].tolist()",
        new="list(range(begin, end))",
        tests=("tests/faults/test_release_order.py",),
    ),
    Fault(
        name="below-k-released",
        wrong="The shuffler releases a round of one report fewer than k_min.",
        file="rase/shuffler/release.py",
        old="if len(some.labels) >= k_min]",
        new="if len(some.labels) >= k_min - 1]",
        tests=("tests/shuffler/test_release.py::test_below_k_nothing_is_released",),
    ),
    Fault(
        name="late-into-next-round",
        wrong="A report that comes after its round closed is stored for the next round.",
        file="rase/shuffler/intake.py",
        old="""    if now_s >= end_s:
        raise WireError(f"round {header.round} is closed.", problem="round-closed")
""",
        new="""    if now_s >= end_s:
        later_s = campaign.closes_s(header.round + 1)
        return OpenRound(agreed, header.round + 1, end_s, later_s, size)
""",
        tests=(
            "tests/shuffler/test_intake.py::test_a_round_is_open_from_its_end_through_its_grace",
        ),
    ),
    Fault(
        name="closed-before-grace",
        wrong="A round is closed as soon as it has a report, while devices may still send.",
        file="rase/shuffler/rounds.py",
        old='"AND closes_s <= ? AND (',
        new='"AND closes_s - 86400 <= ? AND (',
        tests=("tests/faults/test_grace.py",),
    ),
    Fault(
        name="batch-forgotten",
        wrong="The shuffler forgets a batch that the fusion centre did not answer.",
        file="rase/shuffler/forward.py",
        old="        if answer in (Answer.ACCEPTED, Answer.FINAL):\n",
        new="        if answer in (Answer.ACCEPTED, Answer.FINAL, Answer.LATER):\n",
        tests=("tests/shuffler/test_closer.py::test_the_outbox_is_sent_until_taken",),
    ),
    Fault(
        name="revoked-device-accepted",
        wrong="A running intake goes on taking reports of a device that was revoked.",
        file="rase/shuffler/enrolment.py",
        old="        for (device,) in rows:\n            self._digests.pop(device, None)\n",
        new="        for (device,) in rows:\n            self._digests.get(device)\n",
        tests=("tests/shuffler/test_enrolment.py::test_a_revoked_device_sends_no_more",),
    ),
    Fault(
        name="device-in-log",
        wrong="The shuffler's log names the device of a report together with its bytes.",
        file="rase/shuffler/report_handler.py",
        old="            return _status_of(await self._commits.submit(pending))\n",
        new="""            outcome = await self._commits.submit(pending)
            told = f"{sender.device:016x}-{sender.wire.hex()}"
            self._telemetry.event("stored", state=told)
            return _status_of(outcome)
""",
        tests=("tests/simulation/test_trust.py::test_no_log_line_has_an_identity_or_a_value",),
    ),
)

_FUSION: Final = (
    Fault(
        name="batch-taken-twice",
        wrong="The fusion centre does not recognise a batch that is delivered a second time.",
        file="rase/fusion/intake.py",
        old="    return Receipt(False, rows[0][0], rows[0][1]) if rows else None\n",
        new="    return None\n",
        tests=("tests/fusion/test_intake.py::test_a_batch_is_taken_in_once",),
    ),
    Fault(
        name="envelope-counted-twice",
        wrong="An envelope that is in the round already is counted again.",
        file="rase/fusion/intake.py",
        old="key=3)\n    return is_fresh\n",
        new="key=3)\n    return np.ones_like(is_fresh)\n",
        tests=("tests/fusion/test_intake.py::test_replayed_envelopes_add_nothing",),
    ),
    Fault(
        name="batch-after-final",
        wrong="A batch that comes after its round is final is taken in.",
        file="rase/fusion/intake.py",
        old="        raise LateBatch(campaign.id, round)\n",
        new="        return\n",
        tests=("tests/fusion/test_intake.py::test_a_final_round_takes_no_other_batch",),
    ),
    Fault(
        name="cover-counted",
        wrong="Cover reports count towards k_min and are forwarded.",
        file="rase/shuffler/release.py",
        old="            if found.mark.is_cover:\n",
        new="            if False:\n",
        tests=("tests/shuffler/test_labels.py::test_cover_reports_count_for_nothing",),
    ),
    Fault(
        name="label-alone",
        wrong="A label that too few of a round share is forwarded.",
        file="rase/shuffler/release.py",
        old="    while kept and (counts[kept[0]] < k_min or 0 < others < k_min):\n",
        new="    while kept and 0 < others < k_min:\n",
        tests=("tests/shuffler/test_labels.py::test_no_label_of_a_release_has_fewer_than_k_min",),
    ),
    Fault(
        name="below-k-taken",
        wrong="The fusion centre takes a batch of one report fewer than k_min.",
        file="rase/fusion/intake.py",
        old="_check_counts(batch, campaign.k_min)\n",
        new="_check_counts(batch, campaign.k_min - 1)\n",
        tests=("tests/fusion/test_intake.py::test_a_batch_below_k_is_refused",),
    ),
    Fault(
        name="below-k-counted",
        wrong="Reports of an epsilon class count where one fewer than k_min are of it.",
        file="rase/fusion/rounds.py",
        old="settled.counts.of_large_classes(k_min)",
        new="settled.counts.of_large_classes(k_min - 1)",
        tests=("tests/fusion/test_rounds.py::test_reports_of_small_classes_do_not_count",),
    ),
    Fault(
        name="final-before-grace",
        wrong="A round becomes final before its grace is over.",
        file="rase/fusion/rounds.py",
        old="        if now_s < campaign.closes_s(round):\n            return False\n",
        new="",
        tests=(
            "tests/fusion/test_dishonest_shuffler.py::test_no_round_is_final_before_its_grace_is_over",
        ),
    ),
    Fault(
        name="settled-before-grace",
        wrong="A batch that comes before its round's grace is over settles the round at once.",
        file="rase/fusion/intake.py",
        old="        return max(now, closes_s) + (",
        new="        return now + (",
        tests=(
            "tests/fusion/test_dishonest_shuffler.py::test_no_round_is_final_before_its_grace_is_over",
        ),
    ),
    Fault(
        name="window-of-too-few",
        wrong="Windows answer with half of their rounds, where three quarters are needed.",
        file="rase/series/window.py",
        old="    return rounds >= LEAST_SHARE * w\n",
        new="    return rounds >= 0.5 * w\n",
        tests=("tests/fusion/test_query.py::test_windows_answer_with_the_rounds_they_have",),
    ),
    Fault(
        name="revoked-token-accepted",
        wrong="The token of a subscriber that was taken back still opens the estimates.",
        file="rase/fusion/subscribers.py",
        old="        if revoked_s is None and (expires_s",
        new="        if (expires_s",
        tests=("tests/fusion/test_subscribers.py::test_tokens_are_taken_back",),
    ),
)

LIVE: Final = (*_DEVICE, *_SHUFFLER, *_FUSION)
