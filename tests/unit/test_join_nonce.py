"""The data that a machine's proof is bound to."""

from det_controlplane.core.agent_protocol import join_nonce

JOINING = ("cluster", "gpu-1", "key", "incarnation")


def test_a_nonce_is_the_same_on_both_sides() -> None:
    assert join_nonce(*JOINING) == join_nonce(*JOINING)
    assert len(join_nonce(*JOINING)) == 64


def test_nonce_depends_on_cluster_agent_key_and_process() -> None:
    others = [
        tuple(f"{part}x" if i == n else part for i, part in enumerate(JOINING)) for n in range(4)
    ]
    nonces = {join_nonce(*o) for o in [JOINING, *others]}
    assert len(nonces) == 5


def test_different_parts_with_equal_text_have_different_nonces() -> None:
    assert join_nonce("ab", "c", "d", "e") != join_nonce("a", "bc", "d", "e")
    assert join_nonce('a","b', "c", "d", "e") != join_nonce("a", 'b","c', "d", "e")
