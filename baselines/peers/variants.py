"""The ways to execute a peer that are compared. Needs no torch."""

from dataclasses import dataclass, replace

from endings import BadInput


@dataclass(frozen=True)
class Variant:
    """One way. What is not said here is as the peer's users have it."""

    name: str
    channels_last: bool = False
    compiled: bool = False  # torch.compile of the network
    fused_adam: bool = False  # torch.optim.Adam(fused=True), as Noisemark's own step is
    checkpointed: bool = False  # torch.utils.checkpoint of every residual and attention block
    saved_on_cpu: bool = False  # torch.autograd.graph.save_on_cpu around forward
    budget: float | None = None  # activation_memory_budget of torch.compile; None: torch's own


VARIANTS = (
    Variant("eager"),
    Variant("channels-last", channels_last=True),
    Variant("channels-last-fused-adam", channels_last=True, fused_adam=True),
    Variant("compiled", compiled=True),
    Variant("compiled-fused-adam", compiled=True, fused_adam=True),
    Variant("checkpoint", checkpointed=True),
    Variant("checkpoint-fused-adam", checkpointed=True, fused_adam=True),
    Variant("save-on-cpu", saved_on_cpu=True),
)
_BUDGETED = Variant("compiled-budget", compiled=True)

ACCEPTED = ", ".join([*(variant.name for variant in VARIANTS), f"{_BUDGETED.name}=B with B in [0, 1]"])


def _with_budget(value: str) -> Variant | None:
    try:
        budget = float(value)
    except ValueError:
        return None
    if not 0 <= budget <= 1:
        return None
    budget = abs(budget)  # -0.0 has another spelling
    return replace(_BUDGETED, name=f"{_BUDGETED.name}={budget:g}", budget=budget)


def parse_variant(spelling: str) -> Variant:
    """The variant of this name, or BadInput."""
    name, equals, value = spelling.partition("=")
    if equals and name == _BUDGETED.name:
        found = _with_budget(value)
    else:
        found = next((variant for variant in VARIANTS if variant.name == spelling), None)
    if found is None:
        raise BadInput(f"--variant: {spelling} (one of: {ACCEPTED})")
    return found
