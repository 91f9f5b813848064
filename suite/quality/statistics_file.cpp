#include "suite/quality/statistics_file.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "reports/error.h"
#include "suite/io/tensor_bytes.h"

namespace noisemark::suite {
namespace {

at::Tensor bytes_tensor(const std::string& text) {
  const at::Tensor bytes =
      at::empty({static_cast<int64_t>(text.size())}, at::TensorOptions().dtype(at::kByte));
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

int64_t read_samples(const NpzFile& file) {
  const at::Tensor n = file.array("n");
  if (n.scalar_type() != at::kLong || n.numel() != 1 || n.item<int64_t>() < 2) {
    throw bad_input(file.path(), "n", "no number of samples", "one int64 of at least 2");
  }
  return n.item<int64_t>();
}

}  // namespace

bool has_statistics(const NpzFile& file) {
  return file.has("mu") && file.has("sigma");
}

StatisticsFile read_statistics(const NpzFile& file) {
  StatisticsFile statistics;
  statistics.gaussian = checked_gaussian(file.array("mu"), file.array("sigma"), file.path());
  if (file.has("n")) statistics.gaussian.samples = read_samples(file);
  if (file.has("extractor")) {
    const at::Tensor json = file.array("extractor");
    if (json.scalar_type() != at::kByte) {
      throw bad_input(file.path(), "extractor", c10::toString(json.scalar_type()), "uint8");
    }
    statistics.extractor = parse_extractor(bytes_of(json), file.path());
  }
  return statistics;
}

void write_statistics(const std::string& path, const StatisticsFile& statistics) {
  NamedTensors arrays = {{"mu", statistics.gaussian.mean},
                         {"sigma", statistics.gaussian.covariance}};
  if (statistics.gaussian.samples > 0) {
    arrays.emplace_back(
        "n", at::scalar_tensor(statistics.gaussian.samples, at::TensorOptions().dtype(at::kLong)));
  }
  if (statistics.extractor) {
    arrays.emplace_back("extractor", bytes_tensor(extractor_json(*statistics.extractor)));
  }
  write_npz(path, arrays);
}

}  // namespace noisemark::suite
