"""One network of ours beside the peer's: the same weights, the same inputs."""

import parity
import torch

TIMESTEPS = [0, 1, 500, 999]

# Adding a constant to all keys changes no attention weight, so this gradient is zero in exact
# arithmetic and rounding noise in any other.
ZERO_GRADIENT = ".to_k.bias"


def inputs(config, dtype, batch, seed=2):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, config["channels"], config["resolution"], config["resolution"])
    return {
        "x": torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype),
        "t": torch.tensor(TIMESTEPS if batch == 4 else [1, 999]),
        "cotangent": torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype),
    }


def run_both(config, dtype, batch=4, command="gradients", ops="plain", dropout_seed=None):
    """(ours, peers): "output" and, for "gradients", "grad.NAME"."""
    with parity.DefaultDtype(torch.float32):
        peer = parity.perturb(parity.make_peer(config)).to(dtype)
    tensors = inputs(config, dtype, batch)
    request = {"model": config, "dtype": str(dtype).removeprefix("torch."), "ops": ops}
    if dropout_seed is not None:
        request["dropout_seed"] = dropout_seed
        torch.manual_seed(dropout_seed)
    with parity.DefaultDtype(dtype), torch.set_grad_enabled(command == "gradients"):
        output = peer(tensors["x"], tensors["t"])
        peers = {"output": output.detach()}
        if command == "gradients":
            (output * tensors["cotangent"]).sum().backward()
            peers |= {f"grad.{n}": p.grad for n, p in peer.named_parameters()}
    weights = parity.with_prefix("weight.", peer.state_dict())
    return parity.probe(command, tensors | weights, **request), peers


def scaled_error(ours, peers):
    """Largest difference over the peer's largest value, or over 1 if that is larger."""
    return parity.largest(ours - peers) / max(1.0, parity.largest(peers))


def assert_gradients_agree(test, ours, peers, bound):
    """Every gradient within `bound` of the peer's largest value in that tensor; the worst."""
    test.assertEqual(list(ours), list(peers))
    gradients = {n: g for n, g in peers.items() if n.startswith("grad.")}
    scale = max(parity.largest(g) for g in gradients.values())
    worst = 0.0
    for name, gradient in gradients.items():
        if name.endswith(ZERO_GRADIENT):
            noise = 1e3 * torch.finfo(gradient.dtype).eps * scale
            test.assertLessEqual(parity.largest(gradient), noise, name)
            test.assertLessEqual(parity.largest(ours[name]), noise, name)
        else:
            worst = max(worst, test.assert_relative(ours[name], gradient, bound, name))
    return worst
