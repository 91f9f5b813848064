#!/usr/bin/env python3
"""Trains the small classification network whose features stand in where FID's weights are not at hand.

    train_cifarnet.py --data DIR --out cifarnet-v1.safetensors     # about ten minutes on one core

DIR holds CIFAR-10's binary files. Everything random comes from --seed and all arithmetic from torch, so
the same torch on the same instruction set and number of threads gives the same bytes; elsewhere the
last bits differ, which is why the weights are shipped and not made by each user. Batch norms are folded
into the convolutions before they are written. Prints the accuracy on the test pictures.

The file's metadata has one entry, "cifarnet", which is JSON (the order of several is not fixed): how the
network was trained, and the features of one picture as they were before the norms were folded.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

# Output channels, stride, and whether the maps are features, of each 3x3 convolution, as in network.cpp.
LAYERS = ((24, 1, False), (48, 2, False), (48, 1, True), (96, 2, False), (96, 1, True))
CLASSES = 10
RECORD_BYTES = 1 + 3 * 32 * 32
PADDING = 3  # pixels by which a training image is shifted at most


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        self.norms = nn.ModuleList()
        channels = 3
        for out, stride, _ in LAYERS:
            self.convolutions.append(nn.Conv2d(channels, out, 3, stride, 1, bias=False))
            self.norms.append(nn.BatchNorm2d(out))
            channels = out
        self.classes = nn.Linear(channels, CLASSES)

    def averages(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Returns averages of the tapped layers' maps, in order."""
        found = []
        for (_, _, tapped), convolution, norm in zip(LAYERS, self.convolutions, self.norms):
            x = functional.relu(norm(convolution(x)))
            if tapped:
                found.append(x.mean((2, 3)))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.averages(x)[-1])

    def folded(self) -> dict[str, torch.Tensor]:
        """Weight and bias of each convolution with its norm, folded in float64."""
        tensors = {}
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
            weight = convolution.weight.double() * scale.view(-1, 1, 1, 1)
            bias = norm.bias.double() - norm.running_mean.double() * scale
            tensors[f"{index}.weight"] = weight.float().detach().contiguous()
            tensors[f"{index}.bias"] = bias.float().detach()
        return tensors


def read_pictures(files: list[Path]) -> tuple[torch.Tensor, torch.Tensor, str]:
    """uint8 [N, 3, 32, 32], labels, SHA-256 of all files."""
    data = b"".join(file.read_bytes() for file in files)
    records = torch.from_numpy(numpy.frombuffer(data, numpy.uint8).reshape(-1, RECORD_BYTES).copy())
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long(), hashlib.sha256(data).hexdigest()


def as_input(pictures: torch.Tensor) -> torch.Tensor:
    return (pictures.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def augmented(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image shifted and, every other one by chance, turned about."""
    count = len(pictures)
    padded = functional.pad(pictures, (PADDING,) * 4, value=128)
    offsets = torch.randint(2 * PADDING + 1, (2, count, 1), generator=generator)
    rows = offsets[0] + torch.arange(32)
    columns = offsets[1] + torch.arange(32)
    turned = torch.rand(count, generator=generator) < 0.5
    columns[turned] = columns[turned].flip(1)
    which = torch.arange(count).view(-1, 1, 1)
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def train(network: Network, pictures: torch.Tensor, labels: torch.Tensor, args: argparse.Namespace) -> None:
    generator = torch.Generator().manual_seed(args.seed)
    steps = args.epochs * (len(pictures) // args.batch)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=steps, pct_start=0.25)
    begin = time.monotonic()
    for epoch in range(args.epochs):
        order = torch.randperm(len(pictures), generator=generator)
        for indices in order.split(args.batch)[: len(pictures) // args.batch]:
            x = as_input(augmented(pictures[indices], generator))
            loss = functional.cross_entropy(network(x), labels[indices], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1} of {args.epochs}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def accuracy(network: Network, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    network.eval()
    with torch.no_grad():
        right = [(network(as_input(x)).argmax(1) == y).sum().item()
                 for x, y in zip(pictures.split(500), labels.split(500))]
    return sum(right) / len(pictures)


def check_features(network: Network) -> list[float]:
    """Returns the features of the image whose byte i is 37 i mod 251, which network_test.cpp computes too."""
    picture = (37 * torch.arange(3 * 32 * 32) % 251).to(torch.uint8).view(1, 3, 32, 32)
    network.eval()
    with torch.no_grad():
        return torch.cat(network.averages(as_input(picture)), 1)[0].tolist()


def save(network: Network, record: dict[str, object], path: Path) -> None:
    record |= {"network": "cifarnet-v1", "torch": torch.__version__, "check_features": check_features(network)}
    save_file(network.folded(), path, {"cifarnet": json.dumps(record, sort_keys=True)})


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR",
                        help="the folder that holds cifar-10-batches-bin/")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)

    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    folder = args.data / "cifar-10-batches-bin"
    pictures, labels, sha256 = read_pictures([folder / f"data_batch_{i}.bin" for i in range(1, 6)])
    network = Network().to(memory_format=torch.channels_last)
    train(network, pictures, labels, args)
    tests, test_labels, _ = read_pictures([folder / "test_batch.bin"])
    right = accuracy(network, tests, test_labels)
    save(network, {"training_pictures_sha256": sha256, "seed": args.seed, "epochs": args.epochs,
                   "batch": args.batch, "threads": args.threads, "test_accuracy": right}, args.out)
    digest = hashlib.sha256(args.out.read_bytes()).hexdigest()
    print(f"{args.out}: {args.out.stat().st_size} bytes, SHA-256 {digest}, test accuracy {right:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
