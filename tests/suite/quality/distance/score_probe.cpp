// noisemark_score_probe LOGITS.npy SPLITS: the Inception score as JSON, samples dealt to the splits
// as torch-fidelity does.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/base/error.h"
#include "suite/io/numpy.h"
#include "suite/quality/distance/draws.h"
#include "suite/quality/distance/measures.h"

int main(int argc, char** argv) {
  using namespace noisemark;  // NOLINT(google-build-using-namespace): a program, not a header
  if (argc != 3) return static_cast<int>(ExitCode::kBadInput);
  try {
    const at::Tensor logits = suite::read_npy(argv[1]);
    const auto order = suite::numpy_permutation(2020, logits.size(0));
    const auto score = suite::inception_score(logits, std::stoll(argv[2]), order);
    const nlohmann::json reply = {{"mean", score.mean},
                                  {"standard_deviation", score.standard_deviation}};
    std::printf("%s\n", reply.dump().c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
