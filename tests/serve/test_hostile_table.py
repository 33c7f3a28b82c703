"""Which test shows what becomes of which attack at which door. Nothing is missing, and no test is named in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

HERE = Path(__file__).parent
SAME = "as HTTP: one server reads the requests of all pages"
ATTACKS = (
    "oversized",
    "malformed",
    "truncated",
    "slow",
    "wrong or missing token",
    "replayed",
    "gzip bomb",
    "nested encodings",
    "header without end",
    "body without end",
    "internal address, directly",
    "internal address, by name",
    "internal address, by redirect",
)
NOT_SENT = "this door sends nothing to addresses that strangers name"
# By attack: the test, or why there is nothing to test. `file::test`, of this directory.
DOORS: dict[str, dict[str, str]] = {
    "HTTP": {
        "oversized": "test_http_hostile::test_a_body_that_is_too_large",
        "malformed": "test_http_hostile::test_what_is_not_http",
        "truncated": "test_http_abuse::test_bodies_that_are_cut_off",
        "slow": "test_http_abuse::test_one_byte_at_a_time",
        "wrong or missing token": "test_http_access::test_no_token_no_answer",
        "replayed": "test_http_abuse::test_what_is_replayed",
        "gzip bomb": "test_http_abuse::test_packed_twice",
        "nested encodings": "test_http_abuse::test_packed_twice",
        "header without end": "test_http_hostile::test_a_header_that_never_ends",
        "body without end": "test_http_hostile::test_a_body_that_never_ends",
        **dict.fromkeys(ATTACKS[-3:], NOT_SENT),
    },
    "WebSocket": {
        "oversized": "test_web_socket_hostile::test_frames_that_are_wrong",
        "malformed": "test_web_socket_hostile::test_messages_that_make_no_sense",
        "truncated": "test_web_socket_hostile::test_a_frame_that_never_ends",
        "slow": "test_web_socket_hostile::test_a_message_that_never_ends",
        "wrong or missing token": "test_doors_tokens::test_a_socket_needs_a_token",
        "replayed": "test_tickets::test_a_ticket_opens_one_socket",
        "gzip bomb": "test_web_socket_hostile::test_messages_are_not_compressed",
        "nested encodings": "test_web_socket_hostile::test_messages_are_not_compressed",
        "header without end": SAME,
        "body without end": "test_web_socket_hostile::test_a_message_that_never_ends",
        **dict.fromkeys(ATTACKS[-3:], NOT_SENT),
    },
    "hooks": {
        "oversized": "test_hook_addresses::test_little_of_an_answer_is_read",
        "malformed": "test_hooks::test_what_cannot_be_a_hook",
        "truncated": SAME,
        "slow": "test_hooks::test_an_endpoint_that_does_not_answer_in_time_is_asked_again",
        "wrong or missing token": "test_hooks_access::test_hooks_of_others_do_not_exist",
        "replayed": "test_hooks::test_a_failed_delivery_comes_again_with_the_same_id_and_body",
        "gzip bomb": "test_outgoing_hostile::test_answers_are_not_unpacked",
        "nested encodings": "test_outgoing_hostile::test_answers_are_not_unpacked",
        "header without end": "test_outgoing_hostile::test_an_answer_whose_header_never_ends",
        "body without end": "test_hooks::test_an_answer_that_never_ends_is_cut",
        "internal address, directly": "test_hooks::test_internal_addresses_are_refused_unless_they_are_allowed",
        "internal address, by name": "test_hook_addresses::test_requests_do_not_reach_internal_addresses",
        "internal address, by redirect": "test_hooks::test_a_redirect_is_a_failure_and_is_not_followed",
    },
    "WebSub": {
        "oversized": "test_outgoing_hostile::test_forms_of_the_hub",
        "malformed": "test_websub::test_forms_that_cannot_be_used",
        "truncated": SAME,
        "slow": SAME,
        "wrong or missing token": "test_hooks_access::test_topics_of_others_do_not_exist",
        "replayed": "test_websub::test_of_several_requests_the_last_one_counts",
        "gzip bomb": "test_outgoing_hostile::test_forms_of_the_hub",
        "nested encodings": "test_outgoing_hostile::test_forms_of_the_hub",
        "header without end": SAME,
        "body without end": SAME,
        "internal address, directly": "test_websub::test_callbacks_at_internal_addresses_are_refused",
        "internal address, by name": "test_outgoing_hostile::test_callbacks_by_name_and_by_redirect",
        "internal address, by redirect": "test_outgoing_hostile::test_callbacks_by_name_and_by_redirect",
    },
    "selective publishing": {
        **dict.fromkeys(ATTACKS[:-3], SAME),
        "malformed": "test_selective_door::test_what_is_refused",
        "wrong or missing token": "test_selective_door::test_tokens",
        **dict.fromkeys(ATTACKS[-3:], NOT_SENT),
    },
    "fleet": {
        **dict.fromkeys(ATTACKS[:-3], "test_fleet_hostile::test_attacks_on_a_worker"),
        **dict.fromkeys(ATTACKS[-3:], NOT_SENT),
    },
}


@pytest.mark.parametrize("door", DOORS)
def test_every_attack_has_a_test(door: str) -> None:
    assert set(DOORS[door]) == set(ATTACKS)
    for attack, test in DOORS[door].items():
        if "::" in test:
            file, _, name = test.partition("::")
            text = (HERE / f"{file}.py").read_text("utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), (attack, test)
