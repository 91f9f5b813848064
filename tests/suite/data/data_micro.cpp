/// Measures how fast data are made: normals, images of each source, whole batches by number of
/// threads. Real CIFAR-10 is used when NOISEMARK_CIFAR10 names its folder, and the folder of PNG
/// files is then made of it.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "suite/data/dataset.h"
#include "suite/data/loader.h"
#include "suite/random/counter_rng.h"
#include "suite/random/elementary.h"
#include "tests/suite/data/image_writer.h"

namespace {

using namespace noisemark::suite;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr int64_t kBatch = 128;

Definition definition_of(const std::string& source, int64_t channels, int64_t resolution) {
  Definition definition;
  definition.id = "micro";
  definition.data.name = source;
  definition.data.flip = source != "gmm16";
  definition.model.channels = channels;
  definition.model.resolution = resolution;
  definition.train.batch = kBatch;
  return definition;
}

void normals_by_instruction_set(benchmark::State& state) {
  const auto& kernels = normal_kernels();
  const auto index = static_cast<size_t>(state.range(0));
  if (index >= kernels.size()) return state.SkipWithError("not on this processor");
  state.SetLabel(std::string(kernels[index].instruction_set));
  std::array<double, kNormals> out{};
  PhiloxPosition position{{1, 2}, {0, 3, 4, 5}};
  for (auto _ : state) {
    kernels[index].kernel(position, out);
    position.counter[0] += uint32_t{kNormalBlocks};
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * kNormals);
}
BENCHMARK(normals_by_instruction_set)->DenseRange(0, 2);

void normals_of_a_cifar_picture(benchmark::State& state) {
  std::vector<float> out(3072);
  uint64_t sample = 0;
  for (auto _ : state) {
    CounterRng(0, Stream::kNoise, 0, sample++).fill_normal(out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * 3072);
}
BENCHMARK(normals_of_a_cifar_picture);

void read_generated(benchmark::State& state, const std::string& source, int64_t channels,
                    int64_t resolution) {
  const auto dataset = open_dataset(definition_of(source, channels, resolution), "");
  std::vector<float> out(static_cast<size_t>(channels * resolution * resolution));
  int64_t index = 0;
  for (auto _ : state) {
    dataset->read(Split::kTrain, index, out);
    index = (index + 1) % dataset->size(Split::kTrain);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(read_generated, gmm16, "gmm16", 1, 16);
BENCHMARK_CAPTURE(read_generated, synthetic_128, "synthetic", 3, 128);

/// state.range(0): threads, state.range(1): with noise.
void load(benchmark::State& state, const std::shared_ptr<const Dataset>& dataset,
          const Definition& definition) {
  LoaderOptions options;
  options.threads = state.range(0);
  options.noise = state.range(1) != 0;
  options.prefetch = 4;
  options.last_step = int64_t{1} << 32;
  Loader loader(dataset, definition, options);
  for (int i = 0; i < 8; ++i) benchmark::DoNotOptimize(loader.next());
  for (auto _ : state) benchmark::DoNotOptimize(loader.next());
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void load_cifar10(benchmark::State& state) {
  const char* folder = std::getenv("NOISEMARK_CIFAR10");
  if (folder == nullptr) return state.SkipWithError("NOISEMARK_CIFAR10 is not set");
  const Definition definition = definition_of("cifar10", 3, 32);
  load(state, open_dataset(definition, folder), definition);
}
BENCHMARK(load_cifar10)
    ->ArgNames({"threads", "noise"})
    ->ArgsProduct({{1, 2, 4}, {0, 1}})
    ->UseRealTime();

/// 1,000 files: real images where there are any.
void load_png_folder(benchmark::State& state) {
  const test::TemporaryFolder folder;
  const char* cifar = std::getenv("NOISEMARK_CIFAR10");
  const auto pictures = cifar != nullptr ? open_dataset(definition_of("cifar10", 3, 32), cifar)
                                         : open_dataset(definition_of("synthetic", 3, 32), "");
  state.SetLabel(cifar != nullptr ? "CIFAR-10" : "generated");
  std::vector<float> values(3072);
  for (int64_t i = 0; i < 1000; ++i) {
    pictures->read(Split::kTrain, i, values);
    Picture picture{32, 32, 3, std::vector<uint8_t>(3072)};
    for (size_t at = 0; at < 3072; ++at) {
      picture.pixels[at % 1024 * 3 + at / 1024] =
          static_cast<uint8_t>(std::lround((values[at] + 1.0F) * 127.5F));
    }
    folder.write(std::to_string(i) + ".png", test::encode_png(picture));
  }
  const Definition definition = definition_of("folder", 3, 32);
  load(state, open_dataset(definition, folder.path()), definition);
}
BENCHMARK(load_png_folder)
    ->ArgNames({"threads", "noise"})
    ->ArgsProduct({{1, 2, 4}, {1}})
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
