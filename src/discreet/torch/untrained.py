"""What a model holds beside trained parameters: no noise is on it, so that no example may leave a trace there."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from discreet.errors import HypothesisViolated

__all__ = ["Buffers", "Fingerprints"]


class Buffers:
    """The buffers of a model as they are now, to be put back after forward passes that write into them.

    A module that assigns to a buffer (``self.mean = …``) puts another tensor in its place: the first one comes back, as
    it was. Buffers that were registered since are removed.
    """

    def __init__(self, model: nn.Module) -> None:
        self._held: list[tuple[nn.Module, dict[str, tuple[Tensor | None, Tensor | None]]]] = [
            (module, {name: (one, None if one is None else one.detach().clone()) for name, one in _own(module).items()})
            for module in model.modules()
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Undo whatever forward passes have written."""
        for module, held in self._held:
            own = _own(module)
            for name in [name for name in own if name not in held]:
                del own[name]
            for name, (one, before) in held.items():
                if own.get(name) is not one or name not in own:
                    own[name] = one
                if one is not None and before is not None:
                    one.copy_(before)


def _own(module: nn.Module) -> dict[str, Tensor | None]:
    return module._buffers


class Fingerprints:
    """Whether any parameter was written to: how often it was, as PyTorch counts, and the sum of its entries."""

    def __init__(self, model: nn.Module) -> None:
        self._found = _fingerprints(model)

    def require_same(self, model: nn.Module) -> None:
        """Refuse a model whose forward pass has written into its parameters.

        Raises:
            HypothesisViolated: it names them.
        """
        now = _fingerprints(model)
        written = [name for name, found in self._found.items() if now.get(name) != found]
        if written:
            raise HypothesisViolated(
                f"{', '.join(written)}: the forward pass writes into this parameter, so that examples change it "
                "without noise; keep what is computed from examples out of parameters"
            )


@torch.no_grad()
def _fingerprints(model: nn.Module) -> dict[str, tuple[int, float]]:
    if any(isinstance(module, FSDPModule) for module in model.modules()):  # parameters are gathered in every pass
        return {}
    return {name: (p._version, float(p.detach().sum(dtype=torch.float64))) for name, p in model.named_parameters()}
