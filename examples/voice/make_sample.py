#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a WAV file of ten seconds (16 kHz, 16 bits, mono) in which something like a voice speaks three
times, in the noise of a room with a hum. Prints when. The voice is nobody's: a glottal pulse through three
resonators. Needs nothing but Python. Usage: make_sample.py FILE.wav"""
import array
import math
import random
import sys
import wave

RATE, SECONDS = 16000, 10
SPOKEN = [(1.5, 3.0), (4.5, 6.2), (7.6, 9.0)]   # from, to
PITCH = [115, 190, 140]
VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240)]
SYLLABLE, GAP = 0.19, 0.03


class Resonator:
    """Two poles at a frequency, with a bandwidth."""

    def __init__(self):
        self.y1 = self.y2 = 0.0

    def step(self, x, frequency, width):
        r = math.exp(-math.pi * width / RATE)
        y = (1 - r) * x + 2 * r * math.cos(2 * math.pi * frequency / RATE) * self.y1 - r * r * self.y2
        self.y1, self.y2 = y, self.y1
        return y


def speak(sound, start, end, pitch, rng):
    """Syllables of one vowel each, whose pitch falls towards the end."""
    resonators, phase, vowel = [Resonator() for _ in range(3)], 0.0, rng.choice(VOWELS)
    n = int((end - start) * RATE)
    for i in range(n):
        t = i / RATE
        within = t % (SYLLABLE + GAP)
        if within < 1 / RATE:
            vowel = rng.choice(VOWELS)
        phase += pitch * (1.1 - 0.25 * i / n + 0.04 * math.sin(2 * math.pi * 3.1 * t)) / RATE
        pulse = 0.0
        if phase >= 1:
            phase -= 1
            pulse = 1.0
        source = pulse + 0.01 * rng.gauss(0, 1)
        loud = math.sin(math.pi * min(within / SYLLABLE, 1)) ** 0.5
        tones = [r.step(source, f, w) for r, f, w in zip(resonators, vowel, (70, 100, 160))]
        sound[int(start * RATE) + i] += loud * (tones[0] + 0.6 * tones[1] + 0.3 * tones[2])


def main():
    rng = random.Random(8)
    sound = [0.0] * (RATE * SECONDS)
    for (start, end), pitch in zip(SPOKEN, PITCH):
        speak(sound, start, end, pitch, rng)
        print(f"voice from {start:.2f} to {end:.2f}")
    peak = max(map(abs, sound))
    drift = 0.0
    for i, x in enumerate(sound):
        drift = 0.95 * drift + rng.gauss(0, 0.01)
        hum = 0.01 * math.sin(2 * math.pi * 50 * i / RATE) + 0.005 * math.sin(2 * math.pi * 150 * i / RATE)
        sound[i] = 0.5 * x / peak + drift + hum
    with wave.open(sys.argv[1], "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(array.array("h", (int(32767 * max(-1, min(1, x))) for x in sound)).tobytes())


main()
