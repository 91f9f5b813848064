"""One optimizer step as the peers' users write it, with the time of each phase."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from ema_pytorch import EMA
from torch import nn
from torch._functorch import config as functorch_config
from torch.autograd.graph import save_on_cpu
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from definition import Definition
from endings import BadInput, CannotRunHere
from networks import build_loss, build_network, checkpoint_blocks
from phase_clock import PhaseClock, marks_of
from pictures import Pictures, Prefetch
from variants import Variant

_STEPS_AHEAD = 2  # Noisemark's loader has as many batches ready


@dataclass
class Step:
    """Holds what one optimizer step took, in seconds, and its loss."""

    phases: dict[str, float]
    step_s: float
    loss: float
    grad_norm: float | None


def join_ranks() -> int:
    """Joins the others over Gloo where torchrun started this process as one of several; returns how many there are."""
    if "WORLD_SIZE" not in os.environ:
        return 1
    dist.init_process_group("gloo")
    return dist.get_world_size()


def set_tf32(precision: str) -> None:
    """As Noisemark has it: a GPU rounds factors to TensorFloat-32 where the precision is tf32, and nowhere
    else. As torch comes, convolutions are rounded."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


class PeerTrainer:
    """The peer's network, loss, Adam, clipping and moving average for one definition."""

    def __init__(
        self,
        definition: Definition,
        pictures: Pictures,
        variant: Variant,
        precision: str,
        device: torch.device,
        ranks: int = 1,
    ) -> None:
        if definition["train"]["batch"] // definition["train"]["accumulation"] % ranks:
            raise BadInput(f"{definition.name}: train.batch: {definition['train']['batch']} (a multiple of {ranks} ranks)")
        if device.type == "cuda":
            set_tf32(precision)
        torch.manual_seed(definition["benchmark"]["seed"])
        self.definition = definition
        self.device = device
        self.ranks = ranks
        self.variant = variant
        self.layout = torch.channels_last if variant.channels_last else torch.contiguous_format
        self.precision = precision
        self.pictures = pictures
        network = build_network(definition)
        self.parameters = sum(p.numel() for p in network.parameters())
        self.loss = build_loss(definition, network).to(device=device, memory_format=self.layout)
        optimizer = definition["optimizer"]
        self.adam = torch.optim.Adam(
            self.loss.parameters(),
            lr=optimizer["lr"],
            betas=(optimizer["beta1"], optimizer["beta2"]),
            eps=optimizer["eps"],
            fused=variant.fused_adam or None,
        )
        self.ema = self._make_ema()
        if variant.checkpointed:
            checkpoint_blocks(network)
        if variant.compiled:
            self._compile()
        # The gradients have no copies beside the buckets, as in Noisemark.
        self.parallel = self.loss if ranks == 1 else DistributedDataParallel(self.loss, gradient_as_bucket_view=True)
        if ranks > 1:
            torch.manual_seed(definition["benchmark"]["seed"] + 1 + dist.get_rank())
        self.steps = 0
        self._prefetch: Prefetch | None = None
        self._clock = PhaseClock(marks_of(device))

    def _compile(self) -> None:
        # This setting of the process is read when the graph is made, in the first step.
        budget = 1.0 if self.variant.budget is None else self.variant.budget
        functorch_config.activation_memory_budget = budget
        # This works in place, so that parameters keep their names: ema-pytorch pairs weights and averages by them.
        self.loss.model.compile()

    def _make_ema(self) -> nn.Module | None:
        ema = self.definition["ema"]
        if ema["kind"] == "none":
            return None
        if ema["kind"] == "constant":
            return AveragedModel(self.loss, multi_avg_fn=get_ema_multi_avg_fn(ema["decay"]))
        return EMA(
            self.loss,
            beta=ema["decay"],
            update_every=ema["update_every"],
            update_after_step=ema["update_after_step"],
            inv_gamma=ema["inv_gamma"],
            power=ema["power"],
        )

    def _update_ema(self) -> None:
        if isinstance(self.ema, AveragedModel):
            self.ema.update_parameters(self.loss)
        elif self.ema is not None:
            self.ema.update()

    def _autocast(self) -> AbstractContextManager[None]:
        if self.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def _saving(self) -> AbstractContextManager[None]:
        return save_on_cpu(pin_memory=False) if self.variant.saved_on_cpu else nullcontext()

    def _set_learning_rate(self) -> None:
        optimizer = self.definition["optimizer"]
        if optimizer["warmup_steps"]:
            rise = min(1.0, (self.steps + 1) / optimizer["warmup_steps"])
            self.adam.param_groups[0]["lr"] = optimizer["lr"] * rise

    def _next_pictures(self) -> torch.Tensor:
        train = self.definition["train"]
        size = train["batch"] // train["accumulation"] // self.ranks
        if self.device.type != "cuda":
            return self.pictures.batch(size)
        if self._prefetch is None:
            self._prefetch = Prefetch(self.pictures, size, _STEPS_AHEAD * train["accumulation"], pinned=True)
        return self._prefetch.next()

    def micro_batch(self) -> torch.Tensor:
        """The next images, on the device."""
        images = self._next_pictures().to(self.device, non_blocking=True)
        return images.contiguous(memory_format=self.layout)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """A micro-batch's share of the training loss, with the graph for its backward."""
        with self._autocast(), self._saving():
            return self.parallel(images) / self.definition["train"]["accumulation"]

    def _alone(self, micro_batch: int) -> AbstractContextManager[None]:
        """Gradients are exchanged with the last micro-batch of a step."""
        last = micro_batch + 1 == self.definition["train"]["accumulation"]
        return nullcontext() if self.ranks == 1 or last else self.parallel.no_sync()

    def _accumulate(self) -> float:
        total = 0.0
        for micro_batch in range(self.definition["train"]["accumulation"]):
            images = self.micro_batch()
            self._clock.lap("data_wait_s")
            with self._alone(micro_batch):
                loss = self.forward(images)
                total += loss.item()
                self._clock.lap("forward_s")
                loss.backward()
            self._clock.lap("backward_s")
        return total

    def step(self) -> Step:
        """One optimizer step."""
        self._clock.begin()
        loss = self._accumulate()
        grad_norm = None
        if clip_norm := self.definition["optimizer"]["clip_norm"]:
            grad_norm = nn.utils.clip_grad_norm_(self.loss.parameters(), clip_norm).item()
        self._set_learning_rate()
        self.adam.step()
        self.adam.zero_grad()
        self._clock.lap("optimizer_s")
        self._update_ema()
        self._clock.lap("ema_s")
        phases, step_s = self._clock.end()
        self.steps += 1
        return Step(phases, step_s, loss, grad_norm)


def open_device(name: str) -> torch.device:
    """«cpu», «cuda» or «cuda:i»."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CannotRunHere(f"--device: {name}: no CUDA device")
    return device
