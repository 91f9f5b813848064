#pragma once

#include <string>

namespace noisemark::test {

/// A small valid definition, and the same with one line replaced or added.
inline const std::string kDefinition = R"([benchmark]
id = "tiny"
title = "A tiny one"
version = 1
modes = ["none"]

[model]
name = "ho-unet"
channels = 1
resolution = 16
dim = 32
dim_mults = [1, 2]
groups = 8
attention_resolutions = [8]

[data]
name = "gmm16"
flip = false
train_samples = 1000

[ema]
kind = "power"
decay = 0.995

[train]
batch = 16
steps = 20

[eval]
samples = 64

[gate.loss]
metric = "final_loss"
max = 0.5

[scale.cpu.train]
batch = 8

[scale.gpu.gate.loss]
max = 0.25
)";

inline std::string replaced(std::string text, const std::string& old, const std::string& with) {
  return text.replace(text.find(old), old.size(), with);
}

}  // namespace noisemark::test
