# SPDX-License-Identifier: Apache-2.0
"""Networks of kinds that torchvision, timm and transformers lack: diffusion, speech enhancement, recurrent
taggers, super-resolution, experts."""

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Two convolutions with group norms, and what time adds between them."""

    def __init__(self, c, o):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, c), nn.GroupNorm(32, o)
        self.conv1, self.conv2 = nn.Conv2d(c, o, 3, 1, 1), nn.Conv2d(o, o, 3, 1, 1)
        self.time = nn.Linear(512, o)
        self.skip = nn.Conv2d(c, o, 1) if c != o else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attend(nn.Module):
    def __init__(self, c, heads=8):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, c)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        n, c, h, w = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(rows).view(n, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return x + self.out(y).transpose(1, 2).view(n, c, h, w)


class Unet(nn.Module):
    def __init__(self, widths=(128, 256, 512)):
        super().__init__()
        self.first = nn.Conv2d(4, widths[0], 3, 1, 1)
        self.time = nn.Parameter(torch.zeros(1, 512))
        self.down, self.halve, self.up, self.attend = (nn.ModuleList() for _ in range(4))
        c = widths[0]
        for o in widths:
            self.down.append(Residual(c, o))
            self.halve.append(nn.Conv2d(o, o, 3, 2, 1))
            self.attend.append(Attend(o))
            c = o
        self.middle = Residual(c, c)
        for o in reversed(widths):
            self.up.append(Residual(c + o, o))
            c = o
        self.last = nn.Conv2d(c, 4, 3, 1, 1)

    def forward(self, x):
        t = self.time.expand(x.shape[0], -1)
        x, kept = self.first(x), []
        for block, attend, halve in zip(self.down, self.attend, self.halve):
            x = attend(block(x, t)) if x.shape[-1] <= 32 else block(x, t)
            kept.append(x)
            x = halve(x)
        x = self.middle(x, t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1), t)
        return self.last(F.silu(x))


class Decoder(nn.Module):
    """The image decoder of a latent diffusion model."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 256, 3, 1, 1)
        self.blocks = nn.ModuleList([Residual(256, 256), Residual(256, 128), Residual(128, 64)])
        self.last = nn.Conv2d(64, 3, 3, 1, 1)

    def forward(self, x):
        t, x = x.new_zeros(x.shape[0], 512), self.first(x)
        for block in self.blocks:
            x = F.interpolate(block(x, t), scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.last(x))


class Recurrent(nn.Module):
    """Masks of spectra by recurrent layers, as speech enhancement has them."""

    def __init__(self, kind, width, size=257, both=False):
        super().__init__()
        self.rnn = kind(size, width, batch_first=True, bidirectional=both)
        self.again = kind(width * (1 + both), width, batch_first=True)
        self.out = nn.Linear(width, size)

    def forward(self, x):
        return torch.sigmoid(self.out(self.again(self.rnn(x)[0])[0])) * x


class Conformer(nn.Module):
    """One block of a speech recogniser: gated convolution over time between two halves of a feed-forward."""

    def __init__(self, c=256):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.point, self.depth = nn.Conv1d(c, 2 * c, 1), nn.Conv1d(c, c, 31, padding=15, groups=c)
        self.batch, self.last = nn.BatchNorm1d(c), nn.Conv1d(c, c, 1)

    def forward(self, x):
        x = x + 0.5 * self.second(F.silu(self.first(self.norm(x))))
        y = F.glu(self.point(x.transpose(1, 2)), 1)
        return x + self.last(F.silu(self.batch(self.depth(y)))).transpose(1, 2)


class Waves(nn.Module):
    """Dilated convolutions over time with gates, and transposed ones that stretch it (a vocoder)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(80, 256, 7, padding=3)
        self.ups = nn.ModuleList(
            [
                nn.ConvTranspose1d(
                    256 >> i, 128 >> i, 16 if i < 2 else 4, 8 if i < 2 else 2, 4 if i < 2 else 1
                )
                for i in range(3)
            ]
        )
        self.dilated = nn.ModuleList(
            [nn.Conv1d(128 >> i, 128 >> i, 3, padding=d, dilation=d) for i in range(3) for d in (1, 3, 5)]
        )
        self.last = nn.Conv1d(32, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            for conv in self.dilated[3 * i : 3 * i + 3]:
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class Upscale(nn.Module):
    """Super-resolution: convolutions on the small image, pixels shuffled at the end."""

    def __init__(self, c=32):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Conv2d(3, c, 5, 1, 2), nn.Conv2d(c, c, 3, 1, 1), nn.Conv2d(c, 27, 3, 1, 1)]
        )

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.pixel_shuffle(self.layers[-1](x), 3)


class Hourglass(nn.Module):
    """Encoder and decoder with transposed convolutions and 3-D ones, as in medical images."""

    def __init__(self, conv, up, norm, c=16):
        super().__init__()
        self.down = nn.ModuleList(
            [conv(1 if i == 0 else c << (i - 1), c << i, 3, 2 if i else 1, 1) for i in range(4)]
        )
        self.norms = nn.ModuleList([norm(c << i) for i in range(4)])
        self.up = nn.ModuleList([up(c << (i + 1), c << i, 2, 2) for i in (2, 1, 0)])
        self.join = nn.ModuleList([conv(2 * (c << i), c << i, 3, 1, 1) for i in (2, 1, 0)])
        self.last = conv(c, 2, 1)

    def forward(self, x):
        kept = []
        for conv, norm in zip(self.down, self.norms):
            x = F.relu(norm(conv(x)))
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = F.relu(join(torch.cat([up(x), kept.pop()], 1)))
        return self.last(x)


OWN = {
    "unet_diffusion": (Unet, (4, 64, 64)),
    "latent_decoder": (Decoder, (4, 32, 32)),
    "lstm_mask": (lambda: Recurrent(nn.LSTM, 128), (100, 257)),
    "lstm_wide_both": (lambda: Recurrent(nn.LSTM, 512, 80, True), (50, 80)),
    "gru_mask": (lambda: Recurrent(nn.GRU, 256), (100, 257)),
    "gru_small": (lambda: Recurrent(nn.GRU, 64, 40), (50, 40)),
    "conformer": (Conformer, (200, 256)),
    "vocoder": (Waves, (80, 32)),
    "upscale": (Upscale, (3, 90, 120)),
    "unet2d": (lambda: Hourglass(nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, 32), (1, 128, 128)),
    "unet3d": (lambda: Hourglass(nn.Conv3d, nn.ConvTranspose3d, nn.InstanceNorm3d), (1, 32, 32, 32)),
}
